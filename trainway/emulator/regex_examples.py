"""One string that matches a regular expression, for a read-only attribute of which only the pattern is published."""

from __future__ import annotations

from re import _constants as op  # type: ignore[attr-defined]  # typeshed does not describe the parser
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./:"


def example(pattern: str) -> str:
    """A string that `pattern` matches, or "" for one that uses what Python's parser does not know."""
    try:
        parsed: Any = parser.parse(pattern)
    except (parser.error, KeyError, OverflowError):
        return ""
    return _sequence(parsed)


def _sequence(items: Any) -> str:
    return "".join(_item(kind, argument) for kind, argument in items)


def _item(kind: Any, argument: Any) -> str:
    if kind is op.LITERAL:
        return chr(argument)
    if kind is op.NOT_LITERAL:
        return next(letter for letter in LETTERS if ord(letter) != argument)
    if kind is op.ANY:
        return "0"
    if kind is op.IN:
        return next((letter for letter in LETTERS if _contains(argument, ord(letter))), chr(_first(argument)))
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, body = argument
        repeats: int = min(max(least, 1), most)
        return _sequence(body) * repeats
    if kind is op.SUBPATTERN:
        return _sequence(argument[3])
    if kind is op.BRANCH:
        return _sequence(argument[1][0])
    return ""  # anchors and look-arounds take no room


def _contains(choices: Any, code: int) -> bool:
    negated = choices[0][0] is op.NEGATE
    found = any(_choice_contains(kind, argument, code) for kind, argument in choices)
    return found != negated


def _choice_contains(kind: Any, argument: Any, code: int) -> bool:
    if kind is op.LITERAL:
        return bool(argument == code)
    if kind is op.RANGE:
        return bool(argument[0] <= code <= argument[1])
    if kind is op.CATEGORY:
        letter = chr(code)
        word = letter.isalnum() or letter == "_"
        return {op.CATEGORY_DIGIT: letter.isdigit(), op.CATEGORY_WORD: word}.get(argument, False)
    return False


def _first(choices: Any) -> int:
    kind, argument = choices[-1]
    return int(argument[0] if kind is op.RANGE else argument)
