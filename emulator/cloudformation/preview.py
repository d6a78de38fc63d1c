"""Preview an update: the changes of a change set, and the problems of the properties.

CloudFormation validates properties against the schemas when a change set is created, so a mistake costs no rollback
(AWS DevOps blog, "Ship infrastructure faster with CloudFormation and CDK pre-deployment validation on every stack
operation", 2026-07). Values that only the deployment knows, such as the ID of a resource that does not exist yet,
cannot be validated here. They are validated when the resource is created.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from emulator.cloudformation.causes import Cause, at, causes, differences
from emulator.cloudformation.resources import Resource
from emulator.cloudformation.stacks import Change, Desired, PropertyChange
from emulator.registry.records import attribute, has_attribute
from emulator.registry.schema import Properties, PropertyProblem, ResourceSchema, load
from emulator.templates.intrinsics import KNOWN_AFTER_APPLY, Scope, resolve

MakeScope = Callable[[Desired, Callable[[str], Any], Callable[[str, str], Any]], Scope]


def preview(
    desired: Desired,
    existing: dict[str, Resource],
    region: str,
    make_scope: MakeScope,
    there: Callable[[str, dict[str, Any], Properties], Resource | None],
    before: Mapping[str, Any],
) -> tuple[list[Change], list[tuple[str, PropertyProblem]]]:
    """Return the changes that would turn `existing` into the desired state, and the problems by logical ID.

    `there` returns the resource that would be imported, if it exists outside all stacks. `before` are the current
    parameters of the stack.
    """
    parameters = {name for name, value in desired.parameters.items() if before.get(name, value) != value}
    changed: dict[str, Change] = {}

    def ref(logical_id: str) -> str:
        change = changed.get(logical_id)
        known = logical_id in existing and (change is None or change.replacement == "False")
        return existing[logical_id].physical_id if known else KNOWN_AFTER_APPLY

    def get(logical_id: str, name: str) -> Any:
        if logical_id in changed or logical_id not in existing:
            return KNOWN_AFTER_APPLY
        return attribute(load(existing[logical_id].type, region), existing[logical_id].model, name)

    scope = make_scope(desired, ref, get)
    problems: list[tuple[str, PropertyProblem]] = []
    active = desired.template.active_resources(scope)
    for logical_id, resource in active.items():
        schema = load(resource["Type"], region)
        properties = schema.coerce(resolve(resource.get("Properties", {}), scope))
        problems += [(logical_id, problem) for problem in schema.problems(properties)]
        why = functools.partial(_why, resource.get("Properties", {}), changed, parameters)
        change = _change(logical_id, resource, properties, existing.get(logical_id), schema, why)
        if change and change.action == "Add" and (found := there(logical_id, resource, properties)):
            change = Change("Import", logical_id, resource["Type"], found.physical_id)
        if change:
            changed[logical_id] = change
    for logical_id, old in existing.items():
        if logical_id not in active:
            changed[logical_id] = Change(
                "Remove", logical_id, old.type, old.physical_id, policy_action=_policy(old, "DeletionPolicy"),
                before={"Properties": old.properties, **old.settings},
            )  # fmt: skip
    return list(changed.values()), problems


def check_attributes(desired: Desired, region: str) -> list[str]:
    """Return an error in CloudFormation's words for every Fn::GetAtt of an attribute that the type does not have."""
    resources = desired.template.resources
    wrong = []
    for logical_id, name in sorted(_attributes_used(desired.template.document)):
        if logical_id in resources and not has_attribute(load(resources[logical_id]["Type"], region), name, region):
            wrong.append(f"Template error: resource {logical_id} does not support attribute type {name} in Fn::GetAtt")
    return wrong


def settings(resource: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a template's resource besides its type and properties, which change without a service."""
    return {
        key: value for key, value in resource.items() if key not in ("Type", "Properties", "DependsOn", "Condition")
    }


def _change(
    logical_id: str,
    resource: dict[str, Any],
    new: Properties,
    old: Resource | None,
    schema: ResourceSchema,
    why: Callable[[tuple[str, ...]], list[Cause]],
) -> Change | None:
    after = {"Properties": new, **settings(resource)}
    if old is None:
        return Change("Add", logical_id, resource["Type"], after=after)
    details = []
    for path, was, becomes in differences(old.properties, new):
        recreation = schema.recreation(path)
        if recreation == "Always" and _unknown(becomes):
            recreation = "Conditionally"
        details += [PropertyChange("Properties", path[0], recreation, was, becomes, path, cause) for cause in why(path)]
    if settings(resource) != old.settings:
        details.append(PropertyChange("Metadata", None, "Never"))
    if not details:
        return None
    recreations = {detail.recreation for detail in details}
    replacement = "True" if "Always" in recreations else "Conditional" if "Conditionally" in recreations else "False"
    replacing = f"ReplaceAnd{_policy(old, 'UpdateReplacePolicy')}" if replacement != "False" else None
    before = {"Properties": old.properties, **old.settings}
    return Change(
        "Modify", logical_id, old.type, old.physical_id, replacement, tuple(details), replacing, before, after
    )


def _why(
    written: Properties, changed: Mapping[str, Change], parameters: set[str], path: tuple[str, ...]
) -> list[Cause]:
    return causes(at(written, path), changed.keys(), parameters)


def _policy(old: Resource, policy: str) -> str:
    """Return what a policy does to the resource: Delete, Retain, or Snapshot."""
    return str(old.settings.get(policy, "Delete")).replace("RetainExceptOnCreate", "Retain")


def _unknown(value: Any) -> bool:
    return KNOWN_AFTER_APPLY in json.dumps(value, default=str)


def _attributes_used(value: Any) -> set[tuple[str, str]]:
    if isinstance(value, list):
        return {found for item in value for found in _attributes_used(item)}
    if not isinstance(value, dict):
        return set()
    argument = value.get("Fn::GetAtt")
    if isinstance(argument, str):
        argument = argument.split(".", 1)
    if isinstance(argument, list) and len(argument) == 2 and isinstance(argument[1], str):
        return {(argument[0], argument[1])}
    return {found for item in value.values() for found in _attributes_used(item)}
