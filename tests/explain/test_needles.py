"""A pattern is tried where it can match, and only there."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainway.explain import Evidence, Log, explain
from trainway.explain.needles import may_match, needles_of
from trainway.explain.rules import load_rules


@cache
def patterns() -> list[str]:
    """Return the patterns of all rules."""
    return sorted({pattern for rule in load_rules() for pattern in rule.log})


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        (r"(?P<where>\S+): there are no token shards here", (": there are no token shards here",)),
        (
            r"NVML: Driver Not Loaded|Failed to initialize NVML",
            ("NVML: Driver Not Loaded", "Failed to initialize NVML"),
        ),
        (r"colou?r of the \[rank\d+\]", ("r of the [rank",)),
        (r"\d+ (?:one|two)", ()),
        (r"[Pp]rocess group", ("rocess group",)),
        (r"[^\]]+] words", ("] words",)),
        (r"(?:fatal|error)+: (?P<words>.*)", ("fatal", "error")),
        (r"(?:fatal|error)?: no [a-z]{3,40}? space left", (" space left",)),
        (r"(?:fatal|err): (?!retrying)", ()),
        (r"(?i)no space left", ()),
    ],
)
def test_the_longest_words_are_looked_for(pattern: str, needles: tuple[str, ...]) -> None:
    assert needles_of(pattern) == needles


@given(st.data())
def test_no_text_that_a_rule_matches_is_passed_over(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(patterns()))
    # The flag of the rules; what a $ or a ^ meets in the middle of a text is generated as well.
    text = data.draw(st.from_regex(re.compile(pattern, re.MULTILINE)))
    assert may_match(pattern, text)


def test_most_rules_are_passed_over_quickly() -> None:
    assert sum(bool(needles_of(pattern)) for pattern in patterns()) > 0.8 * len(patterns())


def test_every_pattern_compiles() -> None:
    for rule in load_rules():
        for pattern in (*rule.patterns, *rule.unless):
            re.compile(pattern)


def test_a_long_line_loses_its_middle_and_no_line_its_number() -> None:
    line = (
        "Traceback of nothing: " + "x y=" * 50_000 + ": the token at position 3 is 7, but the tokens of the vocabulary"
    )
    text = f"one\n{line}\nTraceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to\n"
    findings = explain(Evidence((Log("job.out", text),)))
    assert {(each.name, each.quote.line) for each in findings} >= {("data-damaged", 2), ("gpu-memory", 4)}
    assert all(len(each.quote.text) < 5000 for each in findings)
