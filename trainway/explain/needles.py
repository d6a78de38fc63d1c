"""Find words that a text must contain for a pattern to match it. Searching a word costs a hundredth of matching.

A job's logs have millions of lines, and hardly any of them matches a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_SHORTEST = 4
_QUANTIFIERS = frozenset("*+?{")
# After a backslash, these characters are not literals.
_COUNTED = re.compile(r"\{\d*,?\d*\}[?+]?")
_CLASSES = frozenset("dDwWsSbBAZ0123456789")


@cache
def needles_of(pattern: str) -> tuple[str, ...]:
    """Return words of which every matching text contains at least one. Empty if the pattern implies no such words."""
    needles = [max(words, key=len, default="") for words in _literals(pattern)]
    return tuple(needles) if all(len(each) >= _SHORTEST for each in needles) else ()


def may_match(pattern: str, text: str) -> bool:
    """Return False if the pattern cannot match anywhere in the text, and True if it may match."""
    needles = needles_of(pattern)
    return not needles or any(each in text for each in needles)


def matches_of(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Return the matches of a pattern in a text. A text without the pattern's words is not matched."""
    return pattern.finditer(text) if may_match(pattern.pattern, text) else iter(())


def _literals(pattern: str) -> list[list[str]]:
    """Return the literal substrings of each top-level alternative of a regular expression, without those in groups."""
    alternatives: list[list[str]] = [[""]]
    depth, position = 0, 0
    while position < len(pattern):
        taken = _token(pattern, position)
        position += len(taken)
        words = alternatives[-1]
        if taken == "(":
            depth += 1
        elif taken == ")":
            depth -= 1
        elif depth:
            continue
        elif taken == "|":
            alternatives.append([""])
            continue
        elif (literal := _literal(taken)) and pattern[position : position + 1] not in _QUANTIFIERS:
            # A quantified character may be absent or repeated, so it ends the run of literals.
            words[-1] += literal
            continue
        words.append("")
    return alternatives


def _token(pattern: str, position: int) -> str:
    """Return one character, one escape, one whole [class], or one whole {quantifier}."""
    if pattern[position] == "\\":
        return pattern[position : position + 2]
    if quantifier := _COUNTED.match(pattern, position):
        return quantifier[0]
    if pattern[position] != "[":
        return pattern[position]
    end = position + (2 if pattern[position + 1] != "^" else 3)
    while pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return pattern[position : end + 1]


def _literal(token: str) -> str:
    if len(token) == 1:
        return "" if token in ".^$*+?{}" else token
    return token[1] if token[0] == "\\" and token[1] not in _CLASSES else ""
