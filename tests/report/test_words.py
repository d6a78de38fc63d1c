"""Numbers as the report says them."""

import math

import pytest

from trainway.report import words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (0.000412, "0.41 ms"),
        (0.00579, "5.79 ms"),
        (0.9994, "999 ms"),
        (0.9999, "1.00 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.99, "1 min 00 s"),
        (72, "1 min 12 s"),
        (3599.7, "1 h 00 min"),
        (7 * 3600 + 300, "7 h 05 min"),
        (math.nan, "not a number"),
    ],
)
def test_duration(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (12_732.8, "12,733"), (0.5608, "0.5608"), (3, "3.000"), (0.00004, "4.00e-05"), (math.inf, "infinite")],
)
def test_number(value: float, said: str) -> None:
    assert words.number(value) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(655_360, "655,360"), (2_361_024, "2.36 million"), (8e9, "8 billion"), (15e12, "15 trillion")],
)
def test_short(count: float, said: str) -> None:
    assert words.short(count) == said


def test_loss_that_is_not_finite_is_said_in_words() -> None:
    assert [words.loss(value) for value in (4.80731, math.nan, math.inf)] == ["4.8073", "not a number", "infinite"]


def test_plural_and_listing() -> None:
    assert words.plural(1, "process", "processes") == "1 process"
    assert words.plural(2000, "step") == "2,000 steps"
    assert [words.listing(["a", "b", "c"][:count]) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
