"""The CloudFormation API: one function per action, from the request's arguments to the response's members.

An action without a function here is refused by name, never ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from emulator.cloudformation import answers
from emulator.cloudformation.engine import Engine
from emulator.cloudformation.stacks import Desired
from emulator.errors import CloudFormationError, NotEmulated
from emulator.templates.template import parse

Arguments = dict[str, Any]
Answer = dict[str, Any]


def create_change_set(engine: Engine, arguments: Arguments) -> Answer:
    name, kind = arguments["StackName"], arguments.get("ChangeSetType", "UPDATE")
    desired = _desired(engine, arguments, kind)
    change_set = engine.create_change_set(name, arguments["ChangeSetName"], kind, desired, arguments.get("Description"))
    return {"Id": change_set.id, "StackId": engine.find(name).id}


def describe_change_set(engine: Engine, arguments: Arguments) -> Answer:
    stack, change_set = engine.find_change_set(arguments["ChangeSetName"], arguments.get("StackName"))
    values = bool(arguments.get("IncludePropertyValues"))
    return answers.of_change_set(stack, change_set) | {
        "Parameters": answers.parameters_of(change_set.desired),
        "Tags": answers.tags_of(change_set.desired),
        "Capabilities": list(change_set.desired.capabilities),
        "Changes": [
            {"Type": "Resource", "ResourceChange": answers.of_change(item, values=values)}
            for item in change_set.changes
        ],
    }


def list_change_sets(engine: Engine, arguments: Arguments) -> Answer:
    stack = engine.find(arguments["StackName"])
    return {"Summaries": [answers.of_change_set(stack, change_set) for change_set in stack.change_sets]}


def execute_change_set(engine: Engine, arguments: Arguments) -> Answer:
    if arguments.get("DisableRollback"):
        raise NotEmulated("DisableRollback: a failed deployment always rolls back here")
    engine.execute(*engine.find_change_set(arguments["ChangeSetName"], arguments.get("StackName")))
    return {}


def delete_change_set(engine: Engine, arguments: Arguments) -> Answer:
    stacks = [engine.find(arguments["StackName"])] if "StackName" in arguments else engine.live()
    for stack in stacks:
        names = (arguments["ChangeSetName"],)
        stack.change_sets = [item for item in stack.change_sets if item.name not in names and item.id not in names]
    return {}


def create_stack(engine: Engine, arguments: Arguments) -> Answer:
    return _deploy_at_once(engine, arguments, "CREATE")


def update_stack(engine: Engine, arguments: Arguments) -> Answer:
    return _deploy_at_once(engine, arguments, "UPDATE")


def delete_stack(engine: Engine, arguments: Arguments) -> Answer:
    if arguments.get("RetainResources") or arguments.get("DeletionMode"):
        raise NotEmulated("RetainResources and DeletionMode of DeleteStack")
    existing = [stack for stack in engine.stacks if arguments["StackName"] in (stack.name, stack.id)]
    if existing:  # deleting a stack that does not exist succeeds, as in AWS
        engine.delete(existing[-1])
    return {}


def describe_stacks(engine: Engine, arguments: Arguments) -> Answer:
    stacks = [engine.find(arguments["StackName"])] if "StackName" in arguments else engine.live()
    return {"Stacks": [answers.of_stack(stack) for stack in stacks]}


def list_stacks(engine: Engine, arguments: Arguments) -> Answer:
    wanted = arguments.get("StackStatusFilter")
    return {
        "StackSummaries": [
            {
                "StackId": stack.id, "StackName": stack.name, "StackStatus": stack.status,
                "CreationTime": stack.created, "LastUpdatedTime": stack.updated, "DeletionTime": stack.deleted,
                "TemplateDescription": stack.desired.template.document.get("Description"),
            }
            for stack in engine.stacks
            if not wanted or stack.status in wanted
        ]
    }  # fmt: skip


def describe_stack_events(engine: Engine, arguments: Arguments) -> Answer:
    stack = engine.find(arguments["StackName"])
    return {
        "StackEvents": [
            {
                "StackId": stack.id, "StackName": stack.name, "EventId": f"{stack.id}/{index}", "Timestamp": event.time,
                "LogicalResourceId": event.logical_id, "PhysicalResourceId": event.physical_id,
                "ResourceType": event.type, "ResourceStatus": event.status, "ResourceStatusReason": event.reason,
            }
            for index, event in reversed(list(enumerate(stack.events)))
        ]
    }  # fmt: skip


def describe_events(engine: Engine, arguments: Arguments) -> Answer:
    """Return the events of the newer call: a change set's problems, a stack's failures, or all its events."""
    if "ChangeSetName" in arguments:
        stack, change_set = engine.find_change_set(arguments["ChangeSetName"], arguments.get("StackName"))
        return {
            "OperationEvents": [
                answers.validation_event(stack, change_set, *problem) for problem in change_set.problems
            ]
        }
    events = describe_stack_events(engine, arguments)["StackEvents"]
    if arguments.get("Filters", {}).get("FailedEvents"):
        events = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
    return {
        "OperationEvents": [
            {key: value for key, value in event.items() if key != "StackName"} | {"EventType": "STACK_EVENT"}
            for event in events
        ]
    }


def get_template(engine: Engine, arguments: Arguments) -> Answer:
    if "ChangeSetName" in arguments:
        _, change_set = engine.find_change_set(arguments["ChangeSetName"], arguments.get("StackName"))
        body = change_set.desired.template.body
    else:
        body = engine.find(arguments["StackName"]).desired.template.body
    return {"TemplateBody": body, "StagesAvailable": ["Original", "Processed"]}


def get_template_summary(engine: Engine, arguments: Arguments) -> Answer:
    document = parse(_template_body(engine, arguments)).document
    declared = document.get("Parameters", {})
    return {
        "Description": document.get("Description"),
        "ResourceTypes": sorted({resource["Type"] for resource in document["Resources"].values()}),
        "Version": document.get("AWSTemplateFormatVersion"),
        "Parameters": [
            {"ParameterKey": key, "ParameterType": item["Type"], "NoEcho": bool(item.get("NoEcho"))}
            | ({"DefaultValue": item["Default"]} if "Default" in item else {})
            for key, item in declared.items()
        ],
    }


def list_stack_resources(engine: Engine, arguments: Arguments) -> Answer:
    stack = engine.find(arguments["StackName"])
    return {
        "StackResourceSummaries": [
            answers.of_resource(item, "LastUpdatedTimestamp") for item in stack.resources.values()
        ]
    }


def describe_stack_resources(engine: Engine, arguments: Arguments) -> Answer:
    if "StackName" not in arguments:
        raise NotEmulated("DescribeStackResources by PhysicalResourceId")
    stack, wanted = engine.find(arguments["StackName"]), arguments.get("LogicalResourceId")
    return {
        "StackResources": [
            {"StackId": stack.id, "StackName": stack.name, **answers.of_resource(item, "Timestamp")}
            for item in stack.resources.values()
            if wanted in (None, item.logical_id)
        ]
    }


def describe_stack_resource(engine: Engine, arguments: Arguments) -> Answer:
    stack, wanted = engine.find(arguments["StackName"]), arguments["LogicalResourceId"]
    if wanted not in stack.resources:
        raise CloudFormationError(f"Resource {wanted} does not exist for stack {stack.name}")
    resource = stack.resources[wanted]
    metadata = json.dumps(resource.settings.get("Metadata", {}))
    identity = {"StackId": stack.id, "StackName": stack.name, "Metadata": metadata}
    return {"StackResourceDetail": identity | answers.of_resource(resource, "LastUpdatedTimestamp")}


def list_exports(engine: Engine, _arguments: Arguments) -> Answer:
    return {
        "Exports": [
            {"ExportingStackId": stack.id, "Name": name, "Value": value}
            for name, (stack, value) in sorted(engine.exports().items())
        ]
    }


def list_imports(engine: Engine, arguments: Arguments) -> Answer:
    importers = engine.importers(arguments["ExportName"])
    if not importers:
        raise CloudFormationError(f"Export '{arguments['ExportName']}' is not imported by any stack.")
    return {"Imports": importers}


def update_termination_protection(engine: Engine, arguments: Arguments) -> Answer:
    stack = engine.find(arguments["StackName"])
    stack.termination_protection = arguments["EnableTerminationProtection"]
    return {"StackId": stack.id}


def validate_template(engine: Engine, arguments: Arguments) -> Answer:
    summary = get_template_summary(engine, arguments)
    return {"Description": summary["Description"]}


ACTIONS: dict[str, Callable[[Engine, Arguments], Answer]] = {
    "CreateChangeSet": create_change_set,
    "CreateStack": create_stack,
    "DeleteChangeSet": delete_change_set,
    "DeleteStack": delete_stack,
    "DescribeChangeSet": describe_change_set,
    "DescribeEvents": describe_events,
    "DescribeStackEvents": describe_stack_events,
    "DescribeStackResource": describe_stack_resource,
    "DescribeStackResources": describe_stack_resources,
    "DescribeStacks": describe_stacks,
    "ExecuteChangeSet": execute_change_set,
    "GetTemplate": get_template,
    "GetTemplateSummary": get_template_summary,
    "ListChangeSets": list_change_sets,
    "ListExports": list_exports,
    "ListImports": list_imports,
    "ListStackResources": list_stack_resources,
    "ListStacks": list_stacks,
    "UpdateStack": update_stack,
    "UpdateTerminationProtection": update_termination_protection,
    "ValidateTemplate": validate_template,
}


def _desired(engine: Engine, arguments: Arguments, kind: str) -> Desired:
    previous = engine.find(arguments["StackName"]).desired if kind == "UPDATE" else None
    tags = {tag["Key"]: tag["Value"] for tag in arguments.get("Tags", [])}
    body = (
        previous.template.body
        if arguments.get("UsePreviousTemplate") and previous
        else _template_body(engine, arguments)
    )
    return engine.desired(
        body,
        arguments.get("Parameters", []),
        tags,
        arguments.get("Capabilities", []),
        previous,
        # Only CreateChangeSet has it. It is a bool in one protocol, and a word in the other.
        import_existing=str(arguments.get("ImportExistingResources", False)).lower() == "true",
    )


def _template_body(engine: Engine, arguments: Arguments) -> str:
    if "TemplateBody" in arguments:
        return str(arguments["TemplateBody"])
    if "TemplateURL" in arguments:
        bucket, key = bucket_and_key(arguments["TemplateURL"])
        s3 = engine.aws.client("s3")
        try:
            return str(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode())
        except s3.exceptions.ClientError as error:
            raise CloudFormationError(
                f"S3 error: {error}. For more information check {arguments['TemplateURL']}"
            ) from error
    if "StackName" in arguments:
        return engine.find(arguments["StackName"]).desired.template.body
    raise CloudFormationError("Either Template URL or Template Body must be specified.")


def bucket_and_key(url: str) -> tuple[str, str]:
    """Return the bucket and key of an S3 URL, with the bucket in the host (bucket.s3.region.…) or in the path."""
    parts = urlsplit(url)
    path = unquote(parts.path).lstrip("/")
    virtual = re.match(r"(.+?)\.s3[.-]", parts.hostname or "")
    if virtual:
        return virtual[1], path
    bucket, _, key = path.partition("/")
    return bucket, key


def _deploy_at_once(engine: Engine, arguments: Arguments, kind: str) -> Answer:
    """Execute a change set at once for CreateStack and UpdateStack. An invalid one leaves nothing behind."""
    if arguments.get("DisableRollback") or arguments.get("OnFailure", "ROLLBACK") != "ROLLBACK":
        raise NotEmulated("Anything but a roll-back when a deployment fails")
    name = arguments["StackName"]
    desired = _desired(engine, arguments, kind)
    change_set = engine.create_change_set(name, "direct", kind, desired, None)
    stack = engine.find(name)
    if change_set.reason:
        stack.change_sets.remove(change_set)
        if kind == "CREATE":
            engine.stacks.remove(stack)
        unchanged = change_set.reason.startswith("The submitted information didn't contain changes.")
        raise CloudFormationError("No updates are to be performed." if unchanged else change_set.reason)
    stack.termination_protection = arguments.get("EnableTerminationProtection", stack.termination_protection)
    engine.execute(stack, change_set)
    return {"StackId": stack.id}
