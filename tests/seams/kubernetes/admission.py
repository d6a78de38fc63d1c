"""Compiles the CEL expressions of admission policies, and refuses a variable or a function that a policy does not have.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#validation-expression (read
2026-11-22)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.seams.kubernetes.cel_rules import EVALUATED, KUBERNETES, program

if TYPE_CHECKING:
    import cel

VARIABLES = {"object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer"}
# Of the language. https://github.com/google/cel-spec/blob/master/doc/langdef.md#list-of-standard-definitions
# (read 2026-11-22)
FUNCTIONS = {
    *("size", "has", "all", "exists", "exists_one", "map", "filter", "contains", "startsWith", "endsWith", "matches"),
    *("int", "uint", "double", "string", "bool", "bytes", "type", "duration", "timestamp", "dyn"),
}
BOUND = re.compile(r"\b(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
_WORD = re.compile(r"\w+")


def refusals(document: dict[str, Any]) -> list[str]:
    """Return what is wrong with the expressions of a ValidatingAdmissionPolicy; empty for every other kind."""
    if document["kind"] != "ValidatingAdmissionPolicy":
        return []
    return [problem for expression in _expressions(document["spec"]) for problem in _problems(expression)]


def _expressions(spec: dict[str, Any]) -> Iterator[str]:
    for section in ("variables", "matchConditions", "validations", "auditAnnotations"):
        for each in spec.get(section, ()):
            yield from (each[key] for key in ("expression", "messageExpression", "valueExpression") if key in each)


def _problems(expression: str) -> Iterator[str]:
    EVALUATED[expression] += 1
    try:
        compiled: cel.Program = program(expression)
    except ValueError as error:
        yield f"{expression}: {error}"
        return
    bound = set(BOUND.findall(expression))
    for name in set(compiled.variables()) - VARIABLES - bound:
        yield f"{expression}: a policy has no variable {name}"
    for name in compiled.functions():
        # Operators are functions, too.
        if _WORD.fullmatch(name) and name not in FUNCTIONS | set(KUBERNETES):
            yield f"{expression}: CEL has no function {name}"
