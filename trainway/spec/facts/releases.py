"""The releases of Trainway, and the platforms that each of them upgrades: releases.yaml."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from trainway.spec.facts.files import FACTS, read_facts

VersionText = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]


class Release(BaseModel):
    """A release, and the oldest version whose platforms it upgrades directly."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: VersionText
    upgrades_from: VersionText


@cache
def releases() -> tuple[Release, ...]:
    """Return the releases of releases.yaml, oldest first."""
    return tuple(Release.model_validate(each) for each in read_facts(FACTS / "releases.yaml")["releases"])
