"""A job file means the same to the launcher and to the training job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthesis import ROOT
from training.config import WrongJobFile, load
from training.config.job_yaml import TwoThings, read_yaml
from trainway.spec import strict_yaml

EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
# Of each kind in YAML 1.1 and 1.2, and at their borders.
WORDS = (
    *("no", "No", "NO", "yes", "on", "off", "y", "n", "true", "False", "TRUE", "null", "~", "Null", "nULL"),
    *("0", "-0", "010", "-010", "1_000", "1:30", "1:30.5", "190:20:30", "0b101", "0x1F", "0x_1", "0o17", "0o8", "08"),
    *("1e5", "3e-4", "1E+5", "1.", ".5", "1.5e3", "-.5", "+12", "1e", ".inf", "-.INF", ".nan", ".NaN", "._1", "1.0_0"),
    *("2026-11-24", "2026-11-24 10:00:00", "=", "a b", "'no'", '"010"', "12a", "0.1.2", "-", "+", "é", "<<x"),
)


def launchers(text: str) -> Any:
    """Return what the launcher reads, or TwoThings where it refuses the text."""
    try:
        reading = strict_yaml.read(text)
    except strict_yaml.UnreadableError:
        return TwoThings
    return TwoThings if reading.faults else reading.data


def jobs(text: str) -> Any:
    """Return what the training job reads, or TwoThings where it refuses the text."""
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return TwoThings


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_the_same_to_both_or_refused_by_both(word: str) -> None:
    for text in (f"key: {word}\n", f"- {word}\n", f"{{a: {word}}}\n"):
        ours, theirs = jobs(text), launchers(text)
        assert (ours, repr(ours)) == (theirs, repr(theirs)), text


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_an_example_is_the_same_to_both(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert jobs(text) == launchers(text) != TwoThings


def test_a_value_that_is_two_things_is_one_message(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: tiny\nsteps: 010\n")
    with pytest.raises(WrongJobFile, match=r"^line 2: programs read 010 differently; put text between quotes$"):
        load(file)
