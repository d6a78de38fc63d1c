"""The matrix of platforms has every shape that changes what is rendered, and each is a valid platform file."""

from __future__ import annotations

from tests.seams.shapes import SHAPES_FILE, platforms
from tests.synthesis import EXAMPLES


def test_every_shape_is_a_valid_platform() -> None:
    names = SHAPES_FILE.read_text(encoding="utf-8").count("\n  orchestrator: ")
    assert len(platforms()) == len(EXAMPLES) + names
    assert names >= 15
