"""The pictures in docs/design.md agree with the code and the stacks."""

from __future__ import annotations

import pytest

from docs.generators.rooms import BETWEEN, PAGE, TOPS, arrows_between_rooms, arrows_within, draw, on_a_cycle, overview
from tests import picture

MOST_BOXES = 20


def test_the_picture_is_that_of_the_imports() -> None:
    found = BETWEEN.search(PAGE.read_text(encoding="utf-8"))
    assert found, "the page has lost its markers"
    assert found[0] == draw(), "run `python -m docs.generators.rooms`"


def test_no_picture_has_more_boxes_than_a_reader_can_follow() -> None:
    pictures = {"overview": overview(), **{package: arrows_within(package) for package in TOPS}}
    boxes = {name: len({room for arrow in arrows for room in arrow}) for name, arrows in pictures.items()}
    assert max(boxes.values()) <= MOST_BOXES, boxes
    assert on_a_cycle(overview()) == set()


def test_the_picture_of_what_is_deployed_is_that_of_the_stacks() -> None:
    found = picture.BETWEEN.search(picture.PAGE.read_text(encoding="utf-8"))
    assert found and found[0] == picture.draw(), "redraw it with `make golden`"


def test_the_job_imports_nothing_of_the_platform() -> None:
    assert not {target for source, target in arrows_between_rooms() if source.startswith("training")} & {"stacks"}
    assert all(target.startswith("training") for source, target in arrows_between_rooms() if source[:8] == "training")


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    drawn = draw()
    assert "trainway_parts --> trainway_spec" in drawn
    assert "trainway_manifests --> trainway_parts" in drawn
    assert "trainway_manifests --> trainway_spec" not in drawn
    assert "trainway_launch --> trainway_manifests" in drawn
    assert "trainway_launch --> trainway_spec" not in drawn


def test_no_folder_imports_itself_by_way_of_others() -> None:
    assert on_a_cycle(arrows_between_rooms()) == set()


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (("stacks.constructs", "stacks"), {"stacks", "stacks.constructs", "stacks.foundation"}),
        (("emulator.services", "emulator"), {"emulator", "emulator.cloudformation", "emulator.services"}),
        (("trainway.spec", "trainway.report"), {"trainway.report", "trainway.spec"}),
    ],
)
def test_a_cycle_is_found(planted: tuple[str, str], found: set[str]) -> None:
    assert found <= on_a_cycle(arrows_between_rooms() | {planted})
