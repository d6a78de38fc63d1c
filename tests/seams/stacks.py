"""The templates of every platform that the seams' readers read, synthesized once per process."""

from __future__ import annotations

from functools import cache

from tests.seams.shapes import platforms
from tests.synthesis import EXAMPLES, Template, assembly_in, templates_of

# All shapes have one name. Stacks that a shape does not change then have equal templates, which are read once.
NAME_OF_SHAPES = "shape"


def stacks() -> dict[str, dict[str, Template]]:
    """Return the templates of every example and every shape, by the platform's name and the stack's role."""
    return {name: stacks_of(name) for name in platforms()}


def stacks_of(name: str) -> dict[str, Template]:
    """Return the templates of one example or shape, by the stack's role. Copy what you change."""
    return _synthesized(name)[0]


def files_of(name: str) -> dict[str, str]:
    """Return the texts of the JSON files that the deploy of one example or shape copies to S3, by the object's key."""
    return _synthesized(name)[1]


@cache
def _synthesized(name: str) -> tuple[dict[str, Template], dict[str, str]]:
    platform = platforms()[name]
    if name not in {file.stem for file in EXAMPLES}:
        platform = platform.model_copy(update={"name": NAME_OF_SHAPES})
    files = assembly_in(platform).glob("asset.*.json")
    return templates_of(platform), {
        file.name.removeprefix("asset."): file.read_text(encoding="utf-8") for file in files
    }
