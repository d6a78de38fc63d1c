"""The templates of every platform that the seams' readers read, synthesized once per process."""

from __future__ import annotations

import tempfile
from functools import cache

import aws_cdk as cdk

from app import add_stacks
from tests.seams.shapes import platforms
from tests.synthesis import EXAMPLES, Template, context, templates

# All shapes have one name. Stacks that a shape does not change then have equal templates, which are read once.
NAME_OF_SHAPES = "shape"


def stacks() -> dict[str, dict[str, Template]]:
    """Return the templates of every example and every shape, by the platform's name and the stack's role."""
    return {name: stacks_of(name) for name in platforms()}


@cache
def stacks_of(name: str) -> dict[str, Template]:
    """Return the templates of one example or shape, by the stack's role. Copy what you change."""
    platform = platforms()[name]
    if name not in {file.stem for file in EXAMPLES}:
        platform = platform.model_copy(update={"name": NAME_OF_SHAPES})
    with tempfile.TemporaryDirectory() as directory:
        app = cdk.App(outdir=directory, context=context())
        add_stacks(app, platform)
        return templates(app)
