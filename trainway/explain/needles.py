"""The words that a text must have for a pattern to match it: to look for a word takes a hundredth of matching.

A job's logs have millions of lines, of which no pattern matches nearly all.
"""

from __future__ import annotations

from functools import cache

_SHORTEST = 4
_QUANTIFIERS = frozenset("*+?{")
# After a backslash these are not themselves.
_CLASSES = frozenset("dDwWsSbBAZ0123456789")


@cache
def needles_of(pattern: str) -> tuple[str, ...]:
    """Words of which a matching text has at least one; none where nothing can be said without matching."""
    needles = [max(words, key=len, default="") for words in _literals(pattern)]
    return tuple(needles) if all(len(each) >= _SHORTEST for each in needles) else ()


def may_match(pattern: str, text: str) -> bool:
    """False where the pattern matches nowhere in the text; True says nothing."""
    needles = needles_of(pattern)
    return not needles or any(each in text for each in needles)


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
            # What has a quantifier may be absent, or be there more than once: it ends the run.
            words[-1] += literal
            continue
        words.append("")
    return alternatives


def _token(pattern: str, position: int) -> str:
    """One character, one escape, or one whole [class]."""
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
        return "" if token in ".^$*+?{}" else token
    return token[1] if token[0] == "\\" and token[1] not in _CLASSES else ""
