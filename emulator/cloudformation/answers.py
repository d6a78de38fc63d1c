"""Responses of the CloudFormation API for a stack, a change set, or a resource."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from emulator.cloudformation.engine import Engine
from emulator.cloudformation.resources import Resource
from emulator.cloudformation.stacks import Change, ChangeSet, Desired, PropertyChange, Stack
from emulator.templates.parameters import shown

Answer = dict[str, Any]


def of_stack(stack: Stack) -> Answer:
    """Return a stack as DescribeStacks shows it."""
    change_set = stack.change_sets[-1].id if stack.change_sets else None
    return {
        "StackId": stack.id, "StackName": stack.name, "StackStatus": stack.status, "StackStatusReason": stack.reason,
        "Description": stack.desired.template.document.get("Description"), "ChangeSetId": change_set,
        "CreationTime": stack.created, "LastUpdatedTime": stack.updated, "DeletionTime": stack.deleted,
        "DisableRollback": False, "EnableTerminationProtection": stack.termination_protection,
        "Capabilities": list(stack.desired.capabilities), "Parameters": parameters_of(stack.desired),
        "Tags": tags_of(stack.desired), "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
        "Outputs": [
            {
                "OutputKey": output.key, "OutputValue": output.value,
                "Description": output.description, "ExportName": output.export,
            }
            for output in stack.outputs
        ],
    }  # fmt: skip


def of_change_set(stack: Stack, change_set: ChangeSet) -> Answer:
    """Return a change set without its changes, as ListChangeSets shows it."""
    return {
        "StackId": stack.id, "StackName": stack.name, "ChangeSetId": change_set.id, "ChangeSetName": change_set.name,
        "Status": change_set.status, "StatusReason": change_set.reason, "ExecutionStatus": change_set.execution_status,
        "CreationTime": change_set.created, "Description": change_set.description,
        "ImportExistingResources": change_set.desired.import_existing,
    }  # fmt: skip


def of_change(change: Change, *, values: bool) -> Answer:
    """Return a resource's change in a change set. With `values`, it includes the resource before and after."""
    contexts = {"BeforeContext": change.before, "AfterContext": change.after} if values else {}
    return {
        "Action": change.action, "LogicalResourceId": change.logical_id, "ResourceType": change.type,
        "PhysicalResourceId": change.physical_id, "Replacement": change.replacement,
        "PolicyAction": change.policy_action,
        "Scope": sorted({detail.attribute for detail in change.details}),
        "Details": [_of_property(detail, values=values) for detail in change.details],
        **{key: json.dumps(context) for key, context in contexts.items() if context is not None},
    }  # fmt: skip


def _of_property(detail: PropertyChange, *, values: bool) -> Answer:
    target = {"Attribute": detail.attribute, "RequiresRecreation": detail.recreation}
    if detail.name:
        kind = "Add" if detail.before is None else "Remove" if detail.after is None else "Modify"
        target |= {"Name": detail.name, "Path": "/Properties/" + "/".join(detail.path), "AttributeChangeType": kind}
    if detail.name and values:
        target |= {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in {"BeforeValue": detail.before, "AfterValue": detail.after}.items()
            if value is not None
        }
    answer = {
        "Target": target,
        "Evaluation": "Dynamic" if detail.cause.dynamic else "Static",
        "ChangeSource": detail.cause.source,
    }
    return answer | ({"CausingEntity": detail.cause.entity} if detail.cause.entity else {})


def validation_event(stack: Stack, change_set: ChangeSet, logical_id: str, kind: str, path: str, reason: str) -> Answer:
    """Return one problem of a change set, as DescribeEvents shows it."""
    return {
        "EventId": f"{change_set.id}/{logical_id}{path}", "StackId": stack.id, "Timestamp": change_set.created,
        "EventType": "VALIDATION_ERROR", "LogicalResourceId": logical_id, "ResourceType": kind,
        "ValidationName": "PROPERTY_VALIDATION", "ValidationStatus": "FAILED", "ValidationFailureMode": "FAIL",
        "ValidationPath": f"/Resources/{logical_id}/Properties{path}", "ValidationStatusReason": f"#{path}: {reason}",
    }  # fmt: skip


def of_resource(resource: Resource, time: str) -> Answer:
    """Return a resource of a stack. `time` is the member for its last change, whose name differs in each call."""
    return {
        "LogicalResourceId": resource.logical_id, "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type, "ResourceStatus": resource.status, time: resource.changed,
    }  # fmt: skip


def parameters_of(desired: Desired) -> list[Answer]:
    """Return the parameters of a stack, with secret values masked."""
    values = shown(desired.template, desired.given_parameters)
    return [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]


def tags_of(desired: Desired) -> list[Answer]:
    """Return the tags of a stack."""
    return [{"Key": key, "Value": value} for key, value in desired.tags.items()]


def everything(engine: Engine) -> Iterator[dict[str, str]]:
    """Yield all existing resources that CloudFormation created, including those that their stack left behind."""
    for stack in engine.live():
        for resource in stack.resources.values():
            yield _line(stack.name, resource, resource.status)
    for stack_name, resource in engine.left:
        yield _line(stack_name, resource, "DELETE_SKIPPED")


def _line(stack: str, resource: Resource, status: str) -> dict[str, str]:
    return {
        "stack": stack, "logical_id": resource.logical_id, "type": resource.type,
        "physical_id": resource.physical_id, "status": status, "depth": resource.depth,
    }  # fmt: skip
