"""Measured costs of changes to the training image: image_builds.yaml, and additions_builds.yaml for additions."""

from __future__ import annotations

from datetime import date
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from trainway.spec.facts.files import FACTS, read_facts


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ImageChange(_Facts):
    """A change of the image, the duration of its builds in seconds, and the bytes that a node fetches for it."""

    name: str
    base_seconds: float = Field(ge=0)
    image_seconds: float = Field(gt=0)
    bytes: int = Field(gt=0)


class ImageBuilds(_Facts):
    """The changes in order of their cost, and the measurement that they come from."""

    result: str
    machine: str
    date: date
    changes: tuple[ImageChange, ...]


class AdditionsChange(_Facts):
    """A change of what a platform adds to an image, the seconds of its builds, and the bytes that a node fetches."""

    name: str
    additions_seconds: float = Field(ge=0)
    image_seconds: float = Field(gt=0)
    bytes: int = Field(gt=0)


class AdditionsBuilds(_Facts):
    """The changes of additions in order of their cost, the bytes of the base, and the measurement they come from."""

    result: str
    machine: str
    date: date
    base_bytes: int = Field(gt=0)
    changes: tuple[AdditionsChange, ...]


@cache
def additions_builds() -> AdditionsBuilds:
    """Return the figures of additions_builds.yaml, read once."""
    return AdditionsBuilds.model_validate(read_facts(FACTS / "additions_builds.yaml"))


@cache
def image_builds() -> ImageBuilds:
    """Return the figures of image_builds.yaml, read once."""
    return ImageBuilds.model_validate(read_facts(FACTS / "image_builds.yaml"))
