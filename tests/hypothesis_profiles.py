"""Budgets of Hypothesis: how many examples a property is tried with.

`make test` uses the profile `default`, and `make test-all` uses the profile `thorough`.
The profile `long` is for a property that somebody changes: `pytest FILE --hypothesis-profile long`.
"""

from __future__ import annotations

from hypothesis import settings

# Examples of a property that asks for no more and no fewer.
PROFILES = {"default": 20, "thorough": 100, "long": 340}


def register() -> None:
    """Register the profiles with Hypothesis and load `default`; `--hypothesis-profile NAME` loads another one.

    No property has a deadline: a busy machine would miss it.
    """
    for name, examples in PROFILES.items():
        settings.register_profile(name, settings(), max_examples=examples, deadline=None)
    settings.load_profile("default")


def examples(ratio: float) -> settings:
    """Return the decorator of a property that is tried with `ratio` times as many examples as others.

    Example: `@examples(20)` is 400 examples in the profile `default` and 2000 in `thorough`.
    """
    return settings(max_examples=round(ratio * settings().max_examples))
