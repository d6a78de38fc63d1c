"""Evaluates the CEL rules of definitions, and counts them.

A rule that cannot be compiled or evaluated, or whose value is no truth value, counts as broken: nothing is passed over.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-cel-libraries (both read 2026-11-22)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cel

# How often each rule was evaluated.
EVALUATED: Counter[str] = Counter()


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


# Of Kubernetes' own libraries, what the rules of the definitions use. The language's own functions are the library's.
KUBERNETES: dict[str, Callable[..., Any]] = {"find": _find}
# Variables of a rule. A rule that names `oldSelf` is for updates.
SELF, OLD_SELF = "self", "oldSelf"


@cache
def program(rule: str) -> cel.Program:
    """Return the compiled rule; raises ValueError if it is not CEL."""
    import cel

    return cel.compile(rule)


def problem(rule: str, value: Any) -> str | None:
    """Return the rule if the value breaks it, or why it cannot be evaluated; None if it holds.

    A rule that compares with the earlier object is evaluated for an update that changes nothing, as a second deploy is.
    """
    import cel

    EVALUATED[rule] += 1
    try:
        verdict = program(rule).execute(cel.Context({SELF: value, OLD_SELF: value}, KUBERNETES))
    except (ValueError, TypeError, RuntimeError, KeyError, IndexError) as error:
        return f"{rule}: {type(error).__name__}: {error}"
    return None if verdict is True else f"{rule} is {verdict}"
