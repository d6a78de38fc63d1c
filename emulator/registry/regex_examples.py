"""Example strings for read-only attributes, from the regular expression that their schema publishes."""

from __future__ import annotations

import re
from functools import cache


@cache
def example(pattern: str) -> str:
    """Return a string of printable ASCII that `pattern` matches, the same one each time, and not empty.

    Return "" for a pattern that Python's `re` cannot read, or that matches no such string. The first example of a
    pattern takes about 20 ms, because Hypothesis generates it.
    """
    # Imported here, because most schemas need no example, and the import takes 0.1 s.
    from hypothesis import Phase, find, settings
    from hypothesis.errors import HypothesisException
    from hypothesis.strategies import characters, from_regex

    printable = characters(min_codepoint=ord(" "), max_codepoint=ord("~"))
    # Without a database, a seed from the clock, and a search for smaller examples: the first one is the simplest.
    once = settings(database=None, deadline=None, derandomize=True, max_examples=1, phases=[Phase.generate])
    try:
        # `$` also matches before a line feed, for every alphabet.
        matching = from_regex(pattern, alphabet=printable).filter(lambda found: found and found.isprintable())
        return find(matching, lambda _: True, settings=once)
    except (re.error, HypothesisException):
        return ""
