"""Scheduled events: schedules call their targets, and Capacity Blocks start and end.

The clock stands still until it is set. Then all due events happen, in order of time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from emulator.errors import ResourceError
from emulator.registry.schema import Properties
from emulator.services.service import Aws

SCHEDULER = "scheduler.amazonaws.com"
# https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html (read 2026-11-22)
_UNIVERSAL = re.compile(r"arn:aws[a-z-]*:scheduler:::aws-sdk:(?P<service>[a-z0-9]+):(?P<operation>[a-z]\w+)")
_ONCE = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
# EKS's scheduled action "Amazon EKS Node Group Capacity Scaledown Before Reservation End", and EC2's terminations:
# https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html (read 2026-11-22)
EKS_SCALES_DOWN = timedelta(minutes=40)
EC2_TERMINATES = timedelta(minutes=30)


class NotAllowed(Exception):
    """The role of a schedule lacks the permission for its target. The message is the service's."""


@dataclass(frozen=True)
class BlockOfTime:
    """A Capacity Block of the account. `id` is that of its capacity reservation."""

    id: str
    start: datetime
    end: datetime


@dataclass
class Clock:
    """The time of a Region, and its Capacity Blocks."""

    aws: Aws
    now: datetime = datetime(1, 1, 1, tzinfo=UTC)
    blocks: dict[str, BlockOfTime] = field(default_factory=dict)

    def advance(self, to: datetime) -> list[str]:
        """Set the time, and return the events since the previous time."""
        if to < self.now:
            raise ValueError(f"the clock shows {self.now.isoformat()}, and does not go back")
        due = [(at, number, event) for number, (at, event) in enumerate(self._events()) if self.now < at <= to]
        happened = []
        for at, _, event in sorted(due, key=lambda each: each[:2]):
            self.now = at
            happened.append(f"{at:%Y-%m-%dT%H:%MZ} {event()}")
        self.now = to
        return happened

    def nodes(self) -> dict[str, dict[str, int]]:
        """Return the desired and the running nodes of each managed node group, by the group's name."""
        found = {}
        for group in _node_groups(self.aws):
            desired = group["scalingConfig"]["desiredSize"]
            block = self._block_of(group)
            active = not block or block.start <= self.now < block.end - EC2_TERMINATES
            if group["capacityType"] == "CAPACITY_BLOCK" and block is None:
                active = False
            found[group["nodegroupName"]] = {"desired": desired, "running": desired if active else 0}
        return found

    def _events(self) -> Iterator[tuple[datetime, Any]]:
        scheduler = self.aws.client("scheduler")
        for listed in scheduler.list_schedules()["Schedules"]:
            schedule = scheduler.get_schedule(Name=listed["Name"], GroupName=listed["GroupName"])
            at = _time_of(schedule)
            if at and schedule["State"] == "ENABLED":
                yield at, lambda schedule=schedule: invoke(self.aws, schedule)
        for group in _node_groups(self.aws):
            if block := self._block_of(group):
                yield block.end - EKS_SCALES_DOWN, lambda group=group: _scale_down(self.aws, group)

    def _block_of(self, group: Properties) -> BlockOfTime | None:
        """Return the Capacity Block that the group's launch template names."""
        template = group.get("launchTemplate") or {}
        if group["capacityType"] != "CAPACITY_BLOCK" or "id" not in template:
            return None
        (version,) = self.aws.client("ec2").describe_launch_template_versions(
            LaunchTemplateId=template["id"], Versions=[str(template["version"])]
        )["LaunchTemplateVersions"]
        target = version["LaunchTemplateData"]["CapacityReservationSpecification"]["CapacityReservationTarget"]
        return self.blocks.get(target["CapacityReservationId"])


def invoke(aws: Aws, schedule: Properties) -> str:
    """Call the target of a schedule with its role, and return the result. A failed call goes to its queue."""
    target = schedule["Target"]
    try:
        found = _UNIVERSAL.fullmatch(target["Arn"])
        if not found:
            raise ResourceError(f"the emulator invokes no target {target['Arn']}")
        service, operation = found["service"], found["operation"]
        client = aws.client(service)
        name = operation[:1].upper() + operation[1:]
        arguments = universal_arguments(
            client.meta.service_model.operation_model(name).input_shape, json.loads(target["Input"])
        )
        may(aws, target["RoleArn"], f"{service}:{name}", _resource(aws, service, arguments))
        methods = {api: method for method, api in client.meta.method_to_api_mapping.items()}
        _refuse_what_eks_refuses(client, service, arguments)
        getattr(client, methods[name])(**arguments)
    except Exception as error:
        _keep(aws, target)
        return f"{schedule['Name']} failed: {error}"
    return f"{schedule['Name']} called {service}:{name} {json.dumps(arguments, sort_keys=True)}"


def _keep(aws: Aws, target: Properties) -> None:
    """Send a failed call to the schedule's dead-letter queue, if the role allows it."""
    queue = target.get("DeadLetterConfig", {}).get("Arn")
    if not queue:
        return
    try:
        may(aws, target["RoleArn"], "sqs:SendMessage", queue)
    except NotAllowed:
        return
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=queue.rpartition(":")[2])["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=target["Input"])


def universal_arguments(shape: Any, value: Any) -> Any:
    """Return the arguments of an API call from a universal target's input, whose names begin with a capital letter.

    Raises ResourceError for a name that the operation does not have.
    """
    if shape.type_name == "structure":
        members = {name[:1].upper() + name[1:]: (name, member) for name, member in shape.members.items()}
        if unknown := sorted(set(value) - set(members)):
            raise ResourceError(f"{shape.name} has no field {unknown[0]}")
        if missing := [n for n, (api, _) in members.items() if api in shape.required_members and n not in value]:
            raise ResourceError(f"missing field {missing[0]}")
        return {members[key][0]: universal_arguments(members[key][1], each) for key, each in value.items()}
    if shape.type_name == "list":
        return [universal_arguments(shape.member, each) for each in value]
    return value


def may(aws: Aws, role_arn: str, action: str, resource: str) -> None:
    """Raise NotAllowed unless Scheduler may assume the role, and the role's own policies allow the action."""
    from moto.iam.access_control import IAMPolicy, PermissionResult

    iam, name = aws.client("iam"), role_arn.rpartition("/")[2]
    trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    if not any(_trusts(aws, statement) for statement in trust["Statement"]):
        raise NotAllowed(f"{SCHEDULER} is not authorized to assume {role_arn}")
    names = iam.list_role_policies(RoleName=name)["PolicyNames"]
    policies = [iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"] for each in names]
    results = [IAMPolicy(json.dumps(each)).is_action_permitted(action, resource) for each in policies]
    if PermissionResult.DENIED in results or PermissionResult.PERMITTED not in results:
        raise NotAllowed(f"{role_arn} is not authorized to perform {action} on {resource}")


def _trusts(aws: Aws, statement: Properties) -> bool:
    source = statement.get("Condition", {}).get("StringEquals", {}).get("aws:SourceAccount", aws.account)
    service = statement.get("Principal", {}).get("Service")
    allows = statement["Effect"] == "Allow" and "sts:AssumeRole" in statement["Action"]
    return allows and source == aws.account and SCHEDULER in ([service] if isinstance(service, str) else service or [])


def _resource(aws: Aws, service: str, arguments: Properties) -> str:
    """Return the ARN that IAM checks."""
    if service != "eks" or "nodegroupName" not in arguments:
        raise ResourceError(f"the emulator does not know what {service} asks IAM about")
    group = aws.client("eks").describe_nodegroup(
        clusterName=arguments["clusterName"], nodegroupName=arguments["nodegroupName"]
    )
    return str(group["nodegroup"]["nodegroupArn"])


def _refuse_what_eks_refuses(client: Any, service: str, arguments: Properties) -> None:
    """Raise ResourceError for a number of nodes outside the group's limits, which moto does not check."""
    if service != "eks" or "scalingConfig" not in arguments:
        return
    group = client.describe_nodegroup(clusterName=arguments["clusterName"], nodegroupName=arguments["nodegroupName"])
    scaling = {**group["nodegroup"]["scalingConfig"], **arguments["scalingConfig"]}
    if not scaling["minSize"] <= scaling["desiredSize"] <= scaling["maxSize"]:
        raise ResourceError(f"desired size {scaling['desiredSize']} is not between minimum and maximum size: {scaling}")


def _scale_down(aws: Aws, group: Properties) -> str:
    """Do what EKS's scheduled action does before a Capacity Block ends."""
    aws.client("eks").update_nodegroup_config(
        clusterName=group["clusterName"],
        nodegroupName=group["nodegroupName"],
        scalingConfig={**group["scalingConfig"], "desiredSize": 0},
    )
    return f"EKS scaled {group['nodegroupName']} down to 0 before the end of its Capacity Block"


def _node_groups(aws: Aws) -> Iterator[Properties]:
    eks = aws.client("eks")
    for cluster in eks.list_clusters()["clusters"]:
        for name in eks.list_nodegroups(clusterName=cluster)["nodegroups"]:
            yield eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]


def _time_of(schedule: Properties) -> datetime | None:
    """Return the time of a schedule that runs once, in UTC."""
    found = _ONCE.fullmatch(schedule["ScheduleExpression"])
    if not found:
        return None
    zone = ZoneInfo(schedule.get("ScheduleExpressionTimezone", "UTC"))
    return datetime.fromisoformat(found[1]).replace(tzinfo=zone).astimezone(UTC)
