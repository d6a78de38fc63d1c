"""Find words that a text must contain for a pattern to match it. Searching a word costs a hundredth of matching.

A job's logs have millions of lines, and hardly any of them matches a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

_SHORTEST = 4
# A repetition that may be none. A repetition of at least one leaves the words before it in place.
_OPTIONAL = re.compile(r"[*?]|\{0?,|\{0\}")
_REPEATED = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")
_GROUP = re.compile(r"\((?:\?(?:P<\w+>|:|(?P<looks>[=!]|<[=!])|(?P<flags>[aiLmsux]+)\)))?")
# After a backslash, letters and digits are not literals.
_ESCAPED = re.compile(r"[A-Za-z0-9]")
# Groups of which nothing is known: those with flags, atomic and conditional ones, and references.
_UNKNOWN = re.compile(r"(?<!\\)\(\?(?:[aiLmux-]|s[aiLmux:-]|>|\(|P=)")
Words = tuple[str, ...]
"""Every match of a pattern contains at least one of these words. Empty if the pattern implies no words."""


@cache
def needles_of(pattern: str) -> Words:
    """Return words of which every matching text contains at least one. Empty if the pattern implies no such words."""
    if _UNKNOWN.search(pattern):
        return ()
    words, _ = _alternatives(pattern, 0)
    return words if min(map(len, words), default=0) >= _SHORTEST else ()


def may_match(pattern: str, text: str) -> bool:
    """Return False if the pattern cannot match anywhere in the text, and True if it may match."""
    needles = needles_of(pattern)
    return not needles or any(each in text for each in needles)


def matches_of(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Return the matches of a pattern in a text. A text without the pattern's words is not matched."""
    return pattern.finditer(text) if may_match(pattern.pattern, text) else iter(())


def matches_any(patterns: Iterable[str], line: str) -> bool:
    """Return whether a line matches one of the patterns."""
    return any(may_match(each, line) and compiled(each).search(line) for each in patterns)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern of a rule. ^ and $ match at line boundaries."""
    return re.compile(pattern, re.MULTILINE)


def _alternatives(pattern: str, position: int) -> tuple[Words, int]:
    """Return the words of all alternatives of a group, and the position at which the group ends."""
    best: list[Words] = []
    while True:
        words, position = _sequence(pattern, position)
        best.append(words)
        if pattern[position : position + 1] != "|":
            break
        position += 1
    known = all(best)
    return (tuple(word for words in best for word in words) if known else ()), position


def _sequence(pattern: str, position: int) -> tuple[Words, int]:
    """Return the longest words of one alternative: those of a group, or a literal outside of groups."""
    best: Words = ()
    literal = ""
    while position < len(pattern) and pattern[position] not in "|)":
        group = _GROUP.match(pattern, position) if pattern[position] == "(" else None
        if group:
            found, position = _in_group(pattern, group)
            best, literal = _better(best, (literal,)), ""
            repeated = _REPEATED.match(pattern, position)
            if not (repeated and _OPTIONAL.match(pattern, position)):
                best = _better(best, found)
            position = repeated.end() if repeated else position
            continue
        token = _token(pattern, position)
        position += len(token)
        repeated = _REPEATED.match(pattern, position)
        character = "" if repeated and _OPTIONAL.match(pattern, position) else _literal(token)
        literal += character
        if repeated or not character:
            best, literal = _better(best, (literal,)), ""
            position = repeated.end() if repeated else position
    return _better(best, (literal,)), position


def _in_group(pattern: str, group: re.Match[str]) -> tuple[Words, int]:
    """Return the words of a group, and the position after the group. Lookaheads and lookbehinds have no words."""
    if group["flags"]:
        return (), group.end()
    found, end = _alternatives(pattern, group.end())
    return (() if group["looks"] else found), end + 1


def _better(one: Words, other: Words) -> Words:
    """Return the tuple whose shortest word is longer."""
    return max(one, other, key=lambda words: min(map(len, words), default=0))


def _token(pattern: str, position: int) -> str:
    """Return one character, one escape, or one whole [class]."""
    if pattern[position] == "\\":
        return pattern[position : position + 2]
    if pattern[position] != "[":
        return pattern[position]
    end = position + (2 if pattern[position + 1] != "^" else 3)
    while pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return pattern[position : end + 1]


def _literal(token: str) -> str:
    if len(token) == 1:
        return "" if token in ".^$" else token
    return token[1] if token[0] == "\\" and not _ESCAPED.match(token[1]) else ""
