"""Show text of jobs and other people without the characters that control a terminal."""

from __future__ import annotations

LONGEST = 2000


def shown(text: str) -> str:
    """Return a text as one line of at most LONGEST characters.

    White space becomes a space, and each other character that a terminal does not show becomes U+FFFD. An escape
    sequence could otherwise change the terminal's title, or hide what was printed before.
    """
    return shown_lines(" ".join(text[: 2 * LONGEST].split())[:LONGEST])


def shown_lines(text: str) -> str:
    """Return a text of several lines with U+FFFD for each character that a terminal does not show."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text)
