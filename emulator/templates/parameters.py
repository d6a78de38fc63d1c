"""Check the given template parameters against their declarations.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html (2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from emulator.errors import CloudFormationError
from emulator.templates.template import Template

_SSM = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")
MASKED = "****"


def given_values(template: Template, given: list[dict[str, Any]], previous: dict[str, str]) -> dict[str, str]:
    """Return the text of every parameter: the given one, the previous one (UsePreviousValue), or the default.

    Raises CloudFormationError for a parameter without a value, or one that the template does not have.
    """
    declared = template.section("Parameters")
    values = {}
    for entry in given:
        key = entry["ParameterKey"]
        if key not in declared:
            raise CloudFormationError(f"Parameters: [{key}] do not exist in the template")
        if entry.get("UsePreviousValue"):
            if key not in previous:
                raise CloudFormationError(f"Parameter {key} has no previous value")
            values[key] = previous[key]
        else:
            values[key] = entry.get("ParameterValue", "")
    defaults = {key: _text(item["Default"]) for key, item in declared.items() if "Default" in item}
    if missing := sorted(set(declared) - set(values) - set(defaults)):
        raise CloudFormationError(f"Parameters: [{', '.join(missing)}] must have values")
    values = {key: values.get(key, defaults.get(key, "")) for key in declared}
    for key, value in values.items():
        _check(key, value, declared[key])
    return values


def resolved_values(template: Template, values: dict[str, str], ssm: Callable[[str], str]) -> dict[str, Any]:
    """Return the Ref of each parameter: text, or a list for list types. SSM parameters are looked up."""
    resolved: dict[str, Any] = {}
    for key, value in values.items():
        kind = template.section("Parameters")[key]["Type"]
        stored = _SSM.fullmatch(kind)
        text, kind = (ssm(value), stored[1]) if stored else (value, kind)
        is_list = kind.startswith("List<") or kind == "CommaDelimitedList"
        resolved[key] = [item.strip() for item in text.split(",")] if is_list else text
    return resolved


def shown(template: Template, values: dict[str, str]) -> dict[str, str]:
    """Return the parameters as the API shows them, with NoEcho values masked."""
    declared = template.section("Parameters")
    return {key: MASKED if _true(declared[key].get("NoEcho")) else value for key, value in values.items()}


def _check(key: str, value: str, declared: dict[str, Any]) -> None:
    reason = declared.get("ConstraintDescription")
    if "AllowedValues" in declared and value not in [_text(item) for item in declared["AllowedValues"]]:
        allowed = ", ".join(_text(item) for item in declared["AllowedValues"])
        raise CloudFormationError(f"Parameter '{key}' must be one of AllowedValues: {reason or allowed}")
    if "AllowedPattern" in declared and not re.fullmatch(declared["AllowedPattern"], value):
        raise CloudFormationError(f"Parameter '{key}' must match pattern {reason or declared['AllowedPattern']}")
    if not int(declared.get("MinLength", 0)) <= len(value) <= int(declared.get("MaxLength", 1 << 30)):
        raise CloudFormationError(f"Parameter '{key}': {reason or 'its length is out of bounds'}")
    if declared["Type"] == "Number":
        try:
            number = float(value)
        except ValueError:
            raise CloudFormationError(f"Parameter '{key}' must be a number, not {value!r}") from None
        if not float(declared.get("MinValue", "-inf")) <= number <= float(declared.get("MaxValue", "inf")):
            raise CloudFormationError(f"Parameter '{key}': {reason or 'its value is out of bounds'}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _true(value: Any) -> bool:
    return _text(value).lower() == "true"
