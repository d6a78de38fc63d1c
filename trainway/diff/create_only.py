"""Tell whether the change of a property replaces its resource, by the table of create_only.yaml."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict

TABLE: Final = Path(__file__).with_name("create_only.yaml")


class Verdict(StrEnum):
    """What CloudFormation does with a resource when a property changes.

    `unknown` stands where the sources disagree. Whoever reads it must take it for a replacement.
    """

    UPDATE = "in place"
    CONDITIONAL = "conditional"
    UNKNOWN = "unknown"
    REPLACE = "replace"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Publication(_Part):
    """A publication about create-only properties, and the day on which it was compared with the table."""

    what: str
    url: str
    compared: date


class CreateOnly(_Part):
    """The verdict on one property. `says` has what each source says of it, and `note` why that gives the verdict."""

    verdict: Verdict
    says: dict[str, str] = {}
    note: str = ""


class Table(_Part):
    """Verdicts by resource type and by the property's dotted path, and the sources that they follow from."""

    sources: dict[str, Publication]
    types: dict[str, dict[str, CreateOnly]]


@functools.cache
def create_only_table() -> Table:
    """Return the table of create_only.yaml."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return Table.model_validate(yaml.load(TABLE.read_text(encoding="utf-8"), loader))


def verdict_on(kind: str, path: Iterable[str]) -> Verdict:
    """Return the verdict on a change at a path below the properties of a resource type.

    A path to a structure has the worst verdict of what is in it. A type that is not in the table is unknown.
    """
    known = create_only_table().types.get(kind)
    if known is None:
        return Verdict.UNKNOWN
    changed = tuple(segment for segment in path if not segment.isdigit())
    names = {tuple(name.split(".")): each.verdict for name, each in known.items()}
    # The property itself, or the nearest structure that it is in, and whatever is in the property.
    above = next((names[changed[:n]] for n in range(len(changed), 0, -1) if changed[:n] in names), Verdict.UPDATE)
    below = [verdict for name, verdict in names.items() if len(name) > len(changed) and name[: len(changed)] == changed]
    return max([above, *below], key=tuple(Verdict).index)
