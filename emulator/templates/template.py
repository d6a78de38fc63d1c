"""Parse and check a CloudFormation template, and order its resources by their dependencies.

The anatomy is https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html (2026-11).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import yaml

from emulator.errors import CloudFormationError, NotEmulated
from emulator.templates.intrinsics import SUB_VARIABLE, Scope, function_name

SECTIONS = {
    "AWSTemplateFormatVersion", "Conditions", "Description", "Hooks", "Mappings", "Metadata", "Outputs", "Parameters",
    "Resources", "Rules", "Transform",
}  # fmt: skip
RESOURCE_KEYS = {
    "Condition", "CreationPolicy", "DeletionPolicy", "DependsOn", "Metadata", "Properties", "Type",
    "UpdatePolicy", "UpdateReplacePolicy",
}  # fmt: skip


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short function tags, and dates as text, which the Version of a policy requires."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_function(loader: _Loader, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        argument: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        argument = loader.construct_sequence(node, deep=True)
    else:
        argument = loader.construct_object(node, deep=True)
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": argument}


_Loader.add_multi_constructor("!", _short_function)


@dataclass(frozen=True)
class Template:
    """A well-formed template: sections and resource keys are known, and every reference has a target."""

    body: str
    document: dict[str, Any]

    def section(self, name: str) -> dict[str, Any]:
        """Return a section's members, or {} if the template does not have it."""
        return self.document.get(name) or {}

    @property
    def resources(self) -> dict[str, Any]:
        """Return resources by logical ID, including those whose condition may be false."""
        return self.section("Resources")

    def active_resources(self, scope: Scope) -> dict[str, Any]:
        """Return the resources whose condition is true, each after everything it depends on."""
        active = {
            logical_id: resource
            for logical_id, resource in self.resources.items()
            if "Condition" not in resource or scope.condition(resource["Condition"])
        }
        return {logical_id: active[logical_id] for logical_id in creation_order(active)}


EMPTY = Template("{}", {})


def parse(body: str) -> Template:
    """Parse JSON or YAML. Raises CloudFormationError for a template format error of CloudFormation."""
    try:
        document = json.loads(body) if body.lstrip().startswith("{") else yaml.load(body, _Loader)
    except (ValueError, yaml.YAMLError) as error:
        raise CloudFormationError(f"Template format error: not well-formed: {error}") from error
    if not isinstance(document, dict) or not document.get("Resources"):
        raise CloudFormationError("Template format error: At least one Resources member must be defined.")
    if unknown := sorted(set(document) - SECTIONS):
        raise CloudFormationError(f"Invalid template property or properties {unknown}")
    if document.get("Transform"):
        raise NotEmulated(f"Transform {document['Transform']!r} runs a macro, and the emulator runs none")
    for logical_id, resource in document["Resources"].items():
        _check_resource(logical_id, resource)
    template = Template(body, document)
    _check_references(template)
    return template


def _check_resource(logical_id: str, resource: Any) -> None:
    if not isinstance(resource, dict) or "Type" not in resource:
        raise CloudFormationError(f"Template format error: [/Resources/{logical_id}] 'Type' is required")
    if unknown := sorted(set(resource) - RESOURCE_KEYS):
        raise CloudFormationError(
            f"Template format error: Invalid template resource property {unknown} in {logical_id}"
        )
    kind = resource["Type"]
    if kind.startswith("Custom::") or kind in ("AWS::CloudFormation::CustomResource", "AWS::CloudFormation::Stack"):
        raise NotEmulated(f"Resource {logical_id} is a {kind}: the emulator runs no Lambda and no nested stack")


def _check_references(template: Template) -> None:
    known = set(template.resources) | set(template.section("Parameters"))
    used = {
        name
        for part in ("Resources", "Outputs", "Conditions")
        for item in template.section(part).values()
        for name in references(item)
    }
    if missing := sorted(name for name in used - known if not name.startswith("AWS::")):
        raise CloudFormationError(
            f"Template format error: Unresolved resource dependencies [{', '.join(missing)}] in the template"
        )


def references(value: Any) -> Iterator[str]:
    """Yield the names that a value refers to: parameters, pseudo parameters, and logical IDs."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        name = function_name(value)
        if name == "Ref":
            yield value["Ref"]
        elif name == "Fn::GetAtt":
            argument = value["Fn::GetAtt"]
            yield argument.split(".")[0] if isinstance(argument, str) else argument[0]
        elif name == "Fn::Sub":
            yield from _sub_references(value["Fn::Sub"])
        else:
            depends_on = value.get("DependsOn", []) if "Type" in value else []
            yield from [depends_on] if isinstance(depends_on, str) else depends_on
            for key, item in value.items():
                if key not in ("Metadata", "DependsOn") or "Type" not in value:
                    yield from references(item)


def _sub_references(argument: Any) -> Iterator[str]:
    text, variables = (argument, {}) if isinstance(argument, str) else argument
    for match in SUB_VARIABLE.finditer(text):
        name = match[1].strip()
        if name not in variables:
            yield name.split(".")[0]
    yield from references(variables)


def creation_order(resources: dict[str, Any]) -> list[str]:
    """Return logical IDs, each after its references and dependencies, otherwise in the template's order.

    Raises CloudFormationError for a circle.
    """
    graph = {
        logical_id: [name for name in references(resource) if name in resources]
        for logical_id, resource in resources.items()
    }
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise CloudFormationError(f"Circular dependency between resources: {sorted(set(error.args[1]))}") from error
