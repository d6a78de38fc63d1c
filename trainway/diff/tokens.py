"""Write every reference of a template as the stack, the resource, and the attribute that it leads to.

Two templates compare only then. An import of an export, an output, and a parameter of SSM are three ways to
name the same resource.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

StackTemplate = dict[str, Any]
REFERENCE: Final = "$reference"
_IN_SUB: Final = re.compile(r"\$\{([^!{}][^{}]*)\}")
_SSM: Final = "AWS::SSM::Parameter::Value"
_DEEPEST: Final = 8


@dataclass(frozen=True)
class Id:
    """A resource of a deployed platform, by its stack and its logical ID."""

    stack: str
    logical_id: str


def resolved_templates(templates: Mapping[str, StackTemplate]) -> dict[Id, dict[str, Any]]:
    """Return every resource of the templates by its ID, with references in its properties as tokens.

    A token is `{"$reference": [stack, logical ID, attribute]}`, where an empty attribute stands for Ref.
    """
    reader = _Reader(templates)
    return {
        Id(stack, logical_id): {**resource, "Properties": reader.read(resource.get("Properties", {}), stack)}
        for stack, template in templates.items()
        for logical_id, resource in template.get("Resources", {}).items()
    }


def references(value: Any) -> Iterator[tuple[Id, str]]:
    """Yield the resource and the attribute of each token in a value."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if REFERENCE in value:
            stack, logical_id, attribute = value[REFERENCE]
            yield Id(stack, logical_id), attribute
            return
        for item in value.values():
            yield from references(item)


class _Reader:
    def __init__(self, templates: Mapping[str, StackTemplate]) -> None:
        self._templates = templates
        self._exports = {
            output["Export"]["Name"]: (stack, output["Value"])
            for stack, template in templates.items()
            for output in template.get("Outputs", {}).values()
            if isinstance(output.get("Export", {}).get("Name"), str)
        }
        self._parameters = {
            resource["Properties"]["Name"]: (stack, resource["Properties"].get("Value"))
            for stack, template in templates.items()
            for resource in template.get("Resources", {}).values()
            if resource["Type"] == "AWS::SSM::Parameter" and isinstance(resource["Properties"].get("Name"), str)
        }

    def read(self, value: Any, stack: str, depth: int = 0) -> Any:
        """Return a value of a stack's template with tokens for its references."""
        if isinstance(value, list):
            return [self.read(item, stack, depth) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and depth < _DEEPEST:
            (name, argument), *_ = value.items()
            if name == "Ref" and isinstance(argument, str):
                return self._ref(argument, stack, depth)
            if name == "Fn::GetAtt":
                logical_id, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
                return {REFERENCE: [stack, logical_id, attribute]}
            if name == "Fn::ImportValue" and isinstance(argument, str) and argument in self._exports:
                owner, exported = self._exports[argument]
                return self.read(exported, owner, depth + 1)
            if name == "Fn::GetStackOutput" and (found := self._output(argument)):
                return self.read(found[1], found[0], depth + 1)
            if name == "Fn::Sub":
                return self._sub(argument, stack, depth)
        return {key: self.read(item, stack, depth) for key, item in value.items()}

    def _ref(self, name: str, stack: str, depth: int) -> Any:
        template = self._templates[stack]
        if name in template.get("Resources", {}):
            return {REFERENCE: [stack, name, ""]}
        declared = template.get("Parameters", {}).get(name, {})
        if not str(declared.get("Type")).startswith(_SSM):
            return declared.get("Default", {"Ref": name})
        if declared.get("Default") in self._parameters:
            owner, value = self._parameters[declared["Default"]]
            return self.read(value, owner, depth + 1)
        return {"ssm": declared.get("Default")}

    def _output(self, argument: Any) -> tuple[str, Any] | None:
        if not isinstance(argument, dict) or argument.get("StackName") not in self._templates:
            return None
        stack = argument["StackName"]
        output = self._templates[stack].get("Outputs", {}).get(argument.get("OutputName"))
        return (stack, output["Value"]) if output else None

    def _sub(self, argument: Any, stack: str, depth: int) -> Any:
        text, variables = (argument, {}) if isinstance(argument, str) else argument
        named = {name.strip(): variables.get(name.strip()) for name in _IN_SUB.findall(text)}
        values = {
            name: given if given is not None else {"Fn::GetAtt": name} if "." in name else {"Ref": name}
            for name, given in named.items()
        }
        return {"Fn::Sub": [text, self.read(values, stack, depth)]}
