"""Validate properties with cfn-lint's JSON Schema validator, and report problems in CloudFormation's words.

cfn-lint implements the keywords that its schemas add to JSON Schema, for example `requiredXor`, and the formats of AWS,
for example `AWS::EC2::VPC.Id` (https://github.com/aws-cloudformation/cfn-lint/tree/main/docs; 2026-11). This module
adds what an emulated CloudFormation needs: values that are unknown before the deployment, and CloudFormation's
sentences. Importing this module imports cfn-lint, which takes most of a second.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex
from cfnlint.jsonschema import StandardValidator, ValidationError, _keywords
from cfnlint.jsonschema._filter import FunctionFilter
from cfnlint.rules import formats

from emulator.templates.intrinsics import KNOWN_AFTER_APPLY

Keyword = Callable[[Any, Any, Any, dict[str, Any]], Iterator[ValidationError]]

# Keywords that judge a value by its text, which changes with the deployment.
JUDGED_BY_TEXT = {
    "const", "enum", "enumCaseInsensitive", "format", "maxLength", "maxUniqueItems", "minLength", "pattern", "type",
    "uniqueItems",
}  # fmt: skip
TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


class KnownValues(FunctionFilter):  # type: ignore[misc]
    """Filter that drops the keywords of `JUDGED_BY_TEXT` for unknown values, and for lists that contain one.

    No value is a function of CloudFormation, because the emulator resolves all functions before it validates.
    """

    def filter(self, validator: Any, instance: Any, schema: Any) -> Iterator[tuple[Any, Any, Any]]:
        parts = instance if isinstance(instance, list) else [instance]
        if any(isinstance(part, str) and KNOWN_AFTER_APPLY in part for part in parts):
            schema = {keyword: rule for keyword, rule in schema.items() if keyword not in JUDGED_BY_TEXT}
        yield instance, schema, validator


def _format_keyword() -> Keyword:
    """Return the `format` keyword of cfn-lint's rule E1103 with the rules of all formats below it."""
    modules = {
        module.name: importlib.import_module(f"{formats.__name__}.{module.name}")
        for module in pkgutil.iter_modules(formats.__path__)
    }
    rule = modules["Format"].Format()
    for each in formats.FormatKeyword.__subclasses__():
        rule.child_rules[each.id] = each()
    keyword: Keyword = rule.format
    return keyword


def _pattern(validator: Any, rule: str, value: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    try:
        regex.compile(rule)
    except regex.error:
        return  # A few published patterns are not regular expressions. AWS's own services ignore them.
    yield from _keywords.pattern(validator, rule, value, schema)


def reason(error: ValidationError) -> str:
    """Return an error in CloudFormation's words, or in cfn-lint's if CloudFormation's are not known."""
    rule, value = error.validator_value, error.instance
    match error.validator:
        case "additionalProperties" if error.path:
            hint = regex.search(r" Did you mean '(.*)'\?\)$", error.message)
            similar = f" (did you mean {hint[1]}?)" if hint else ""
            return f"extraneous key [{error.path[-1]}] is not permitted{similar}"
        case "format":
            return f"{value!r} does not have the form of an {rule}"
        case "pattern":
            return f"{value!r} does not match the pattern {rule}"
        case "required":
            return f"required key [{error.message.split(chr(39))[1]}] not found"
        case "type":
            expected = " or ".join([rule] if isinstance(rule, str) else rule)
            return f"expected type: {expected}, found: {TYPE_NAMES.get(type(value), 'null')} {value!r}"
    return str(error.message)


def path(error: ValidationError) -> list[str | int]:
    """Return the keys and indices of the value that an error is about. An extraneous key is reported at its object."""
    found = list(error.absolute_path)
    return found[:-1] if error.validator == "additionalProperties" else found


_FILTER = KnownValues(add_cfn_lint_keyword=False, validate_dynamic_references=False)
_KEYWORDS: Mapping[str, Keyword] = {"format": _format_keyword(), "pattern": _pattern}
PropertyValidator = StandardValidator({}).extend(validators=_KEYWORDS, function_filter=_FILTER)
