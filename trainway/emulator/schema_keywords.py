"""JSON Schema as CloudFormation speaks it: its extra keywords, its messages, and values that are not known yet.

The extra keywords and the formats are described at https://github.com/aws-cloudformation/cfn-lint/tree/main/docs
(json_schema keywords and format_keyword.md; 2026-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import regex
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from trainway.emulator.intrinsics import KNOWN_AFTER_APPLY

Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, dict[str, Any]], Errors]

# What a value must look like to be what its format says: https://github.com/aws-cloudformation/cfn-lint/blob/main/docs/format_keyword.md
FORMATS = {
    "AWS::EC2::Image.Id": r"^ami-([a-f0-9]{8}|[a-f0-9]{17})$",
    "AWS::EC2::SecurityGroup.Id": r"^sg-([a-fA-F0-9]{8}|[a-fA-F0-9]{17})$",
    "AWS::EC2::Subnet.Id": r"^subnet-([a-f0-9]{8}|[a-f0-9]{17})$",
    "AWS::EC2::VPC.Id": r"^vpc-([a-f0-9]{8}|[a-f0-9]{17})$",
    "AWS::IAM::Role.Arn": r"^arn:aws[a-zA-Z-]*:iam::\d{12}:role/.+$",
    "AWS::S3::Bucket.Name": r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
    "AWS::SNS::Topic.Arn": r"^arn:aws[a-zA-Z-]*:sns:[a-z0-9-]+:\d{12}:.+$",
    "ipv4-network": r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$",
}


def _of(kind: type | tuple[type, ...], check: Callable[[Any, Any], str | None]) -> Keyword:
    """A keyword that looks only at values of a kind, and returns the reason why one is wrong."""

    def keyword(_validator: Any, rule: Any, value: Any, _schema: dict[str, Any]) -> Errors:
        if isinstance(value, kind) and (reason := check(rule, value)):
            yield ValidationError(reason)

    return keyword


def _unless_unknown(keyword: Keyword) -> Keyword:
    """A value (or a list with one) that only the deployment will know cannot be judged by its text."""

    def careful(validator: Any, rule: Any, value: Any, schema: dict[str, Any]) -> Errors:
        parts = value if isinstance(value, list) else [value]
        if not any(isinstance(part, str) and KNOWN_AFTER_APPLY in part for part in parts):
            yield from keyword(validator, rule, value, schema) or ()

    return careful


def _pattern(rule: str, value: str) -> str | None:
    try:
        matches = regex.search(rule, value)
    except regex.error:
        return None  # a handful of published patterns are not regular expressions; AWS's own services ignore them
    return None if matches else f"{value!r} does not match the pattern {rule}"


def _format(rule: str, value: str) -> str | None:
    pattern = FORMATS.get(rule)
    return f"{value!r} does not have the form of an {rule}" if pattern and not regex.search(pattern, value) else None


def _enum(rule: Sequence[Any], value: Any) -> str | None:
    return None if value in rule else f"{value!r} is not one of {list(rule)}"


def _enum_case_insensitive(rule: Sequence[str], value: str) -> str | None:
    return None if value.lower() in {choice.lower() for choice in rule} else f"{value!r} is not one of {list(rule)}"


def _required(rule: Sequence[str], value: dict[str, Any]) -> str | None:
    missing = [name for name in rule if name not in value]
    return f"required key [{', '.join(missing)}] not found" if missing else None


def _required_xor(rule: Sequence[str], value: dict[str, Any]) -> str | None:
    given = [name for name in rule if name in value]
    return None if len(given) == 1 else f"exactly one of {list(rule)} is required, found {given}"


def _required_or(rule: Sequence[str], value: dict[str, Any]) -> str | None:
    return None if any(name in value for name in rule) else f"one of {list(rule)} is required"


def _dependent_excluded(rule: dict[str, Sequence[str]], value: dict[str, Any]) -> str | None:
    for name, excluded in rule.items():
        both = [other for other in excluded if name in value and other in value]
        if both:
            return f"{name} cannot be combined with {both}"
    return None


def _unique_keys(rule: Sequence[str], value: list[Any]) -> str | None:
    keys = [[item.get(key) for key in rule] for item in value if isinstance(item, dict)]
    repeated = [key for index, key in enumerate(keys) if key in keys[:index]]
    return f"items repeat the same {list(rule)}: {repeated}" if repeated else None


def _additional_properties(validator: Any, rule: Any, value: Any, schema: dict[str, Any]) -> Errors:
    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name, item in value.items():
        if name in schema.get("properties", {}) or any(not _pattern(pattern, name) for pattern in patterns):
            continue
        if rule is False:
            similar = get_close_matches(name, schema.get("properties", {}), n=1)
            hint = f" (did you mean {similar[0]}?)" if similar else ""
            yield ValidationError(f"extraneous key [{name}] is not permitted{hint}")
        elif isinstance(rule, dict):
            yield from validator.descend(item, rule, path=name)


def _pattern_properties(validator: Any, rule: dict[str, Any], value: Any, _schema: dict[str, Any]) -> Errors:
    if isinstance(value, dict):
        for pattern, subschema in rule.items():
            for name, item in value.items():
                if not _pattern(pattern, name):
                    yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _type(validator: Any, rule: Any, value: Any, _schema: dict[str, Any]) -> Errors:
    expected = [rule] if isinstance(rule, str) else rule
    if not any(validator.is_type(value, name) for name in expected):
        yield ValidationError(f"expected type: {' or '.join(expected)}, found: {_type_name(value)} {value!r}")


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


_KEYWORDS: dict[str, Keyword] = {
    "additionalProperties": _additional_properties,
    "dependentExcluded": _of(dict, _dependent_excluded),
    "enum": _of((str, int, float), _enum),
    "enumCaseInsensitive": _of(str, _enum_case_insensitive),
    "format": _of(str, _format),
    "pattern": _of(str, _pattern),
    "patternProperties": _pattern_properties,
    "required": _of(dict, _required),
    "requiredOr": _of(dict, _required_or),
    "requiredXor": _of(dict, _required_xor),
    "type": _type,
    "uniqueKeys": _of(list, _unique_keys),
}
_JUDGED_BY_TEXT = (
    "const", "enum", "enumCaseInsensitive", "format", "maxLength", "minLength", "pattern", "type", "uniqueItems",
)  # fmt: skip

PropertyValidator = extend(
    Draft202012Validator,
    {name: _unless_unknown({**Draft202012Validator.VALIDATORS, **_KEYWORDS}[name]) for name in _JUDGED_BY_TEXT}
    | {name: keyword for name, keyword in _KEYWORDS.items() if name not in _JUDGED_BY_TEXT},
)
