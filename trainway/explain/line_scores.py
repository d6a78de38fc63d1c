"""Score each line of a log by how likely it names the cause. `explain` quotes the best line if no rule matches.

The last error of a log is often that of a launcher, and the first one that of a warning. line_scores.yaml has the
signs of a line that tells why, each with its weight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from trainway.explain.log_line_at import bare
from trainway.spec.facts.files import read_facts

FILE: Final = Path(__file__).with_name("line_scores.yaml")
# Signs of a line that tells of some trouble.
_TROUBLE = frozenset({"reason", "exception", "error", "fatal", "failed"})


class Sign(BaseModel):
    """A sign of a line: its weight, and the pattern of its words. A sign of the line's place has no pattern."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float
    pattern: str | None = None


@cache
def load_signs() -> dict[str, Sign]:
    """Return every sign by its name. Each process reads them once."""
    found = read_facts(FILE)
    return {name: Sign.model_validate(each) for name, each in found.items()}


class Scored(NamedTuple):
    """The score of a line, and the position of the line's start in the text of its log."""

    score: float
    position: int


def highest_score(text: str, part: slice, may_be: Callable[[str], bool]) -> Scored | None:
    """Return the first line with the highest score in whole lines of a log, or None if `may_be` accepts no line."""
    lines = text[part].split("\n")
    starts = accumulate((len(line) + 1 for line in lines), initial=part.start or 0)
    scored = [
        Scored(sum(load_signs()[name].weight for name in signs), start)
        for line, start, signs in zip(lines, starts, signs_of(lines), strict=False)
        if may_be(line)
    ]
    return max(scored, key=lambda each: each.score, default=None)


def signs_of(lines: Sequence[str]) -> list[frozenset[str]]:
    """Return the names of the signs of each line. `lines` is a log, or a part of one."""
    worded = [_worded(bare(line)) for line in lines]
    troubled = [index for index, signs in enumerate(worded) if signs & _TROUBLE]
    raised = [index for index, signs in enumerate(worded) if "exception" in signs]

    def placed(index: int) -> frozenset[str]:
        above = lines[index - 1].strip() if index else ""
        held = {
            "indented": lines[index].startswith("  "),
            "below_frame": 'File "' in above,
            "below_colon": above.endswith(":") and "Traceback (most recent" not in above,
            "trouble": index in troubled,
            "first_trouble": troubled[:1] == [index],
            "last_trouble": troubled[-1:] == [index],
            "first_exception": raised[:1] == [index],
        }
        return frozenset(name for name, holds in held.items() if holds)

    return [signs | placed(index) for index, signs in enumerate(worded)]


def _worded(line: str) -> frozenset[str]:
    return frozenset(name for name, pattern in _patterns() if pattern.search(line))


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(sign.pattern)) for name, sign in load_signs().items() if sign.pattern)
