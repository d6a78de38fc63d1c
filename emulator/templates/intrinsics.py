"""Evaluate CloudFormation's intrinsic functions: from a template value and a scope to a plain value.

The list and the rules are those of
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html (2026-11).
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from emulator.errors import CloudFormationError, NotEmulated

# CloudFormation's marker, in a change set, for a value that only the deployment knows.
KNOWN_AFTER_APPLY = "{{changeSet:KNOWN_AFTER_APPLY}}"
NO_VALUE = object()
SUB_VARIABLE = re.compile(r"\$\{([^!{}][^{}]*)\}")
_DYNAMIC_REFERENCE = re.compile(r"\{\{resolve:([^}]*)\}\}")


@dataclass(frozen=True)
class Scope:
    """The meaning of names while a template is resolved.

    `conditions` holds the unevaluated conditions. The callables look up what is outside the template.
    """

    parameters: dict[str, Any]
    mappings: dict[str, Any]
    conditions: dict[str, Any]
    resource_ids: frozenset[str]
    ref: Callable[[str], Any]
    attribute: Callable[[str, str], Any]
    import_value: Callable[[str], str]
    availability_zones: Callable[[str], list[str]]
    ssm_parameter: Callable[[str], str]

    def condition(self, name: str) -> bool:
        """Return whether a condition of the template is true."""
        if name not in self.conditions:
            raise CloudFormationError(f"Template format error: Unresolved condition {name}")
        return bool(resolve(self.conditions[name], self))


def resolve(value: Any, scope: Scope) -> Any:
    """Return `value` with all functions evaluated. AWS::NoValue is removed from its object or list."""
    if isinstance(value, list):
        items = [resolve(item, scope) for item in value]
        return [item for item in items if item is not NO_VALUE]
    if isinstance(value, dict):
        name = function_name(value)
        if name is not None:
            return FUNCTIONS[name](value[name], scope)
        members = {key: resolve(item, scope) for key, item in value.items()}
        return {key: item for key, item in members.items() if item is not NO_VALUE}
    if isinstance(value, str) and "{{resolve:" in value:
        return _DYNAMIC_REFERENCE.sub(lambda match: _dynamic_reference(match[1], scope), value)
    return value


def function_name(value: dict[str, Any]) -> str | None:
    """Return the intrinsic function that this object calls, or None for plain data.

    Raises CloudFormationError for a function that does not exist.
    """
    if len(value) != 1:
        return None
    (name,) = value
    if name in FUNCTIONS and (name != "Condition" or isinstance(value[name], str)):
        return str(name)
    if name == "Fn::Transform":
        raise NotEmulated("Fn::Transform runs a macro, and the emulator runs none")
    if isinstance(name, str) and name.startswith("Fn::"):
        raise CloudFormationError(f"Template format error: Unrecognized function {name}")
    return None


def _ref(argument: str, scope: Scope) -> Any:
    if argument == "AWS::NoValue":
        return NO_VALUE
    if argument in scope.parameters:
        return scope.parameters[argument]
    if argument in scope.resource_ids:
        return scope.ref(argument)
    raise CloudFormationError(f"Template format error: Unresolved resource dependencies [{argument}]")


def _get_att(argument: Any, scope: Scope) -> Any:
    logical_id, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
    return scope.attribute(logical_id, resolve(attribute, scope))


def _sub(argument: Any, scope: Scope) -> str:
    text, variables = (argument, {}) if isinstance(argument, str) else argument

    def substitute(match: re.Match[str]) -> str:
        name = match[1].strip()
        if name in variables:
            return as_text(resolve(variables[name], scope))
        if "." in name and name not in scope.parameters:
            return as_text(_get_att(name, scope))
        return as_text(_ref(name, scope))

    replaced = SUB_VARIABLE.sub(substitute, text).replace("${!", "${")
    return as_text(resolve(replaced, scope))


def _join(argument: Any, scope: Scope) -> str:
    delimiter, items = argument
    values = resolve(items, scope)
    if values == KNOWN_AFTER_APPLY:
        return KNOWN_AFTER_APPLY
    joined = str(delimiter).join(as_text(item) for item in values)
    return as_text(resolve(joined, scope))


def _select(argument: Any, scope: Scope) -> Any:
    index, items = int(as_text(resolve(argument[0], scope))), resolve(argument[1], scope)
    if any(isinstance(item, str) and KNOWN_AFTER_APPLY in item for item in items) or items == KNOWN_AFTER_APPLY:
        # A list that is split from an unknown text has an unknown number of items.
        return items[index] if isinstance(items, list) and index < len(items) else KNOWN_AFTER_APPLY
    if not 0 <= index < len(items):
        raise CloudFormationError(f"Template error: Fn::Select cannot select nonexistent value at index {index}")
    return items[index]


def _split(argument: Any, scope: Scope) -> Any:
    delimiter, text = argument[0], as_text(resolve(argument[1], scope))
    return text if text == KNOWN_AFTER_APPLY else text.split(delimiter)


def _if(argument: Any, scope: Scope) -> Any:
    name, when_true, when_false = argument
    return resolve(when_true if scope.condition(name) else when_false, scope)


def _equals(argument: Any, scope: Scope) -> bool:
    left, right = (resolve(item, scope) for item in argument)
    return as_text(left) == as_text(right)


def _find_in_map(argument: Any, scope: Scope) -> Any:
    name, top, second = (as_text(resolve(item, scope)) for item in argument[:3])
    try:
        return scope.mappings[name][top][second]
    except KeyError:
        if len(argument) == 4 and "DefaultValue" in argument[3]:
            return resolve(argument[3]["DefaultValue"], scope)
        raise CloudFormationError(f"Template error: Unable to get mapping for {name}::{top}::{second}") from None


def _cidr(argument: Any, scope: Scope) -> Any:
    block, count, *host_bits = (resolve(item, scope) for item in argument)
    if KNOWN_AFTER_APPLY in block:
        return [KNOWN_AFTER_APPLY] * int(count)
    network = ipaddress.ip_network(block, strict=False)
    bits = int(host_bits[0]) if host_bits else 8
    blocks = [str(item) for item in islice(network.subnets(new_prefix=network.max_prefixlen - bits), int(count))]
    if len(blocks) < int(count):
        raise CloudFormationError(f"Template error: Fn::Cidr: {block} does not hold {count} blocks of {bits} bits")
    return blocks


def _base64(argument: Any, scope: Scope) -> str:
    return base64.b64encode(as_text(resolve(argument, scope)).encode()).decode()


def _get_azs(argument: Any, scope: Scope) -> list[str]:
    return scope.availability_zones(as_text(resolve(argument, scope)) or scope.parameters["AWS::Region"])


def _dynamic_reference(reference: str, scope: Scope) -> str:
    service, _, name = reference.partition(":")
    if service != "ssm":
        raise NotEmulated(f"The dynamic reference {{{{resolve:{reference}}}}}: only ssm is emulated")
    return scope.ssm_parameter(name)


def as_text(value: Any) -> str:
    """Return a scalar as CloudFormation writes it into a string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict) or value is NO_VALUE:
        raise CloudFormationError(f"Template error: expected a string, found {value!r}")
    return str(value)


FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Condition": lambda argument, scope: scope.condition(argument),
    "Fn::And": lambda argument, scope: all(resolve(item, scope) for item in argument),
    "Fn::Base64": _base64,
    "Fn::Cidr": _cidr,
    "Fn::Equals": _equals,
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAZs": _get_azs,
    "Fn::GetAtt": _get_att,
    "Fn::If": _if,
    "Fn::ImportValue": lambda argument, scope: scope.import_value(as_text(resolve(argument, scope))),
    "Fn::Join": _join,
    "Fn::Not": lambda argument, scope: not resolve(argument[0], scope),
    "Fn::Or": lambda argument, scope: any(resolve(item, scope) for item in argument),
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::Sub": _sub,
    "Ref": _ref,
}
