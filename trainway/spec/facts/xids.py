"""Xid errors of NVIDIA's driver: xids.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from trainway.spec.facts.files import FACTS, read_facts


class Xid(BaseModel):
    """The meaning of an Xid, its remedy, and the action of EKS's node repair."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["cause", "symptom", "consequence"]
    meaning: str
    remedy: str = ""
    eks: Literal["reboot", "replace"] | None = None


@cache
def load_xids() -> Mapping[int, Xid]:
    """Return the known Xids by number. Each process reads them once."""
    return {number: Xid.model_validate(facts) for number, facts in read_facts(FACTS / "xids.yaml").items()}
