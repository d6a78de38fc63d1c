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


def examples(ratio: float, *, at_night: float | None = None) -> settings:
    """Return the decorator of a property that is tried with `ratio` times as many examples as others.

    `at_night` is the ratio in the other profiles. Default: `ratio`, too. Example: `@examples(5, at_night=20)` is 100
    examples in the profile `default` and 2000 in `thorough`.
    """
    examples_of_others = settings().max_examples
    is_default = examples_of_others == PROFILES["default"]
    return settings(max_examples=round((ratio if is_default or at_night is None else at_night) * examples_of_others))
