"""A wrong type of a required key hides no broken rule of other keys, and adds no problem that the file lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.representatives import with_representatives
from tests.spec.test_platform_mistakes import CASES, GOOD, write
from trainway.spec.loader import load_platform
from trainway.spec.problems import Problem, SpecError

WRONG_TYPES = {
    "the count of a group is a word": (" count: 4,", ' count: "four",'),
    "the type of a group is a number": ("instance_type: p5.48xlarge", "instance_type: 5"),
    "the name of a group is missing": ("{name: train, ", "{"),
    "the Region is a number": ("region: us-west-2", "region: 2"),
    "the zones are one text": ("zones: [usw2-az2, usw2-az1]", "zones: usw2-az2"),
    "the name of a team is a list": ("{name: research", "{name: [research]"),
}


def problems_of(text: str, directory: Path) -> set[tuple[object, str, str]]:
    try:
        load_platform(write(directory, text))
    except SpecError as error:
        return {of_person(problem) for problem in error.problems}
    return set()


def of_person(problem: Problem) -> tuple[object, str, str]:
    """Return what a person is told of a problem, without its position, which another mistake moves."""
    return problem.key, problem.reason, problem.remedy


@pytest.mark.parametrize("wrong", with_representatives(WRONG_TYPES, ("the count of a group is a word",)))
def test_planted_mistakes_are_told_beside_a_wrong_type(wrong: str, tmp_path: Path) -> None:
    before, after = WRONG_TYPES[wrong]
    # An item that a mistake adds to a list moves the wrong key.
    alone = {told[1:] for told in problems_of(GOOD.replace(before, after, 1), tmp_path)}
    assert alone
    told, hidden = list[str](), list[str]()
    for name, mistake in CASES["mistakes"].items():
        text = GOOD.replace(mistake["replace"], mistake["by"], 1)
        if before in text:
            expected, found = problems_of(text, tmp_path), problems_of(text.replace(before, after, 1), tmp_path)
            invented = {each for each in found - expected if each[1:] not in alone}
            assert not invented, name
            (told if expected <= found else hidden).append(name)
    print(f"{len(told)} mistakes are told, and not {len(hidden)}: {hidden}")
    # Those that are hidden depend on the wrong key: a group of another type has other devices, for example.
    assert len(told) > 9 * len(hidden)
    assert len(told) > 150
