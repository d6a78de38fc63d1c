"""Every CEL rule of the definitions that are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.seams.kubernetes.admission import BOUND, FUNCTIONS
from tests.seams.kubernetes.cel_rules import KUBERNETES, OLD_SELF, SELF, program
from tests.seams.kubernetes.definitions import definitions, schema_of

_WORD = re.compile(r"\w+")


def rules() -> set[str]:
    """Return the rules of every definition."""
    return {rule for each in definitions().values() for rule in _rules(schema_of(each))}


def cannot_be_evaluated(rule: str) -> list[str]:
    """Return why the CEL library cannot evaluate a rule: its syntax, a variable, or a function that is missing."""
    try:
        compiled = program(rule)
    except ValueError as error:
        return [f"{rule}: {error}"]
    variables = set(compiled.variables()) - {SELF, OLD_SELF} - set(BOUND.findall(rule))
    functions = {name for name in compiled.functions() if _WORD.fullmatch(name)} - FUNCTIONS - set(KUBERNETES)
    return [f"{rule}: {name} is missing" for name in sorted({*variables, *functions})]


def _rules(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        rules = node.get("x-kubernetes-validations", ())
        yield from (each["rule"] for each in rules if isinstance(each, dict))
        for value in node.values():
            yield from _rules(value)
    elif isinstance(node, list):
        for value in node:
            yield from _rules(value)
