"""A Capacity Block's life on the emulator: deployed before its start, raised, drained, and over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from emulator import Emulator, running
from tests.changes.emulated_account import EmulatedAccount, bootstrap
from tests.people import with_people
from tests.synthesis import assembly_in, stack_dependencies, templates_of
from trainway.diff.look import look_at
from trainway.diff.report import DiffReport
from trainway.monitoring.alarms import QUEUED
from trainway.spec.capacity.capacity_times import failed_calls_queue
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.lock import lock_file, lock_text
from trainway.spec.recorded_lock import recorded_lock

BLOCKS = {"train": "cr-0123456789abcdef0", "undrained": "cr-0123456789abcdef1"}
START, END = "2026-12-01T11:30Z", "2026-12-08T11:30Z"


def platform(root_volume_gib: int = 500, max_count: int = 8) -> dict[str, Any]:
    groups: list[dict[str, Any]] = [
        {
            "name": name,
            "instance_type": "p5.48xlarge",
            "count": 4,
            "max_count": max_count if name == "undrained" else 8,
            "capacity": {"capacity_block": block, "start": START, "end": END},
        }
        for name, block in BLOCKS.items()
    ]
    groups.append({"name": "data", "instance_type": "m7i.8xlarge", "count": 1, "root_volume_gib": root_volume_gib})
    admins = {"admins": ["arn:aws:iam::111122223333:role/platform"]}
    where = {"name": "life", "region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"]}
    return {**where, "kubernetes": admins, "node_groups": groups}


@dataclass(frozen=True)
class Account:
    """An emulated AWS in which a platform is deployed, as the CDK deploys it but for the assets."""

    emulator: Emulator
    directory: Path

    def client(self, service: str) -> Any:
        session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=self.emulator.region)
        return session.client(service, endpoint_url=self.emulator.endpoint)

    def write(self, document: Mapping[str, Any]) -> Path:
        """Write the platform file, and the lock that is there after its deploy."""
        file = self.directory / "platform.yaml"
        file.write_text(yaml.safe_dump(with_people(dict(document)), sort_keys=False), encoding="utf-8")
        lock = recorded_lock(load_platform(file), load_catalogue())
        lock_file(file).write_text(lock_text(lock), encoding="utf-8")
        return file

    def diff(self, document: Mapping[str, Any]) -> DiffReport:
        """Return what `trainway diff` says of a platform."""
        file, of_account = self.write(document), EmulatedAccount(self.emulator)
        return look_at(assembly_in(file), load_platform(file), file, of_account, synthesis=lambda _: {})

    def deploy(self, document: Mapping[str, Any]) -> None:
        """Deploy every stack of a platform that has changes."""
        file = self.write(document)
        templates = templates_of(file)
        order = TopologicalSorter(stack_dependencies(assembly_in(file))).static_order()
        cloudformation = self.client("cloudformation")
        for role in order:
            name = f"{document['name']}-{role}"
            there = name in {s["StackName"] for s in cloudformation.describe_stacks()["Stacks"]}
            answer = {"StackName": name, "ChangeSetName": "change"}
            cloudformation.create_change_set(
                **answer,
                ChangeSetType="UPDATE" if there else "CREATE",
                TemplateBody=json.dumps(templates[role]),
                Capabilities=["CAPABILITY_NAMED_IAM"],
            )
            if cloudformation.describe_change_set(**answer)["Status"] == "FAILED":
                cloudformation.delete_change_set(**answer)  # no changes
                continue
            cloudformation.execute_change_set(**answer)
            (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
            assert stack["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), self._failures(name)

    def _failures(self, name: str) -> list[str]:
        events = self.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        return [
            f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason')}"
            for e in events
            if "FAILED" in e["ResourceStatus"]
        ]

    def failed(self) -> list[str]:
        """Return the calls that failed for good, and take them from the queue that the alarm watches."""
        sqs = self.client("sqs")
        (alarm,) = [
            each
            for each in self.client("cloudwatch").describe_alarms()["MetricAlarms"]
            if each.get("MetricName") == QUEUED and each["Dimensions"][0]["Value"] == failed_calls_queue("life")
        ]
        assert alarm["AlarmActions"] and alarm["Threshold"] == 0
        (watched,) = alarm["Dimensions"]
        queue = sqs.get_queue_url(**{watched["Name"]: watched["Value"]})["QueueUrl"]
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in messages]

    def at(self, time: str) -> tuple[list[str], dict[str, str]]:
        """Set the clock. Return what happened until then, and the desired and running nodes of the blocks' groups."""
        blocks = [{"id": block, "start": START, "end": END} for block in BLOCKS.values()]
        answer = self.emulator.set_clock(datetime.fromisoformat(time).replace(tzinfo=UTC), blocks=blocks)
        nodes = {
            group: f"{found['desired']} desired, {found['running']} running"
            for group in BLOCKS
            for name, found in answer["nodes"].items()
            if group.capitalize() in name
        }
        return answer["happened"], nodes


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with running() as emulator:
        bootstrap(emulator)
        yield Account(emulator, tmp_path)


NONE, FOUR = "0 desired, 0 running", "4 desired, 4 running"
BEFORE_AND_AFTER, WITHIN = dict.fromkeys(BLOCKS, NONE), dict.fromkeys(BLOCKS, FOUR)


@pytest.mark.exhaustive
def test_the_life_of_a_capacity_block(account: Account) -> None:
    account.deploy(platform())
    scheduler = account.client("scheduler")
    (drain,) = [each["Name"] for each in scheduler.list_schedules()["Schedules"] if "UndrainedDrain" in each["Name"]]
    scheduler.delete_schedule(Name=drain)
    assert account.at("2026-12-01T11:29") == ([], BEFORE_AND_AFTER)

    happened, nodes = account.at("2026-12-01T12:00")
    assert nodes == WITHIN
    assert len(happened) == 2
    assert all(each.startswith("2026-12-01T11:31Z") and '"desiredSize": 4' in each for each in happened)

    # A deploy while the block runs: whatever else changes, CloudFormation leaves the number of nodes alone.
    account.deploy(platform(root_volume_gib=600))
    assert account.at("2026-12-08T10:44") == ([], WITHIN)

    # The schedule drains before EKS does.
    (drained,), nodes = account.at("2026-12-08T10:49")
    assert drained.startswith("2026-12-08T10:45Z") and '"desiredSize": 0' in drained
    assert nodes == {"train": NONE, "undrained": FOUR}
    happened, nodes = account.at("2026-12-08T10:59")
    assert all(each.startswith("2026-12-08T10:50Z EKS scaled") for each in happened)
    assert nodes == BEFORE_AND_AFTER

    # The block is over. Its group stays, without nodes, until the file names another block.
    account.deploy(platform())
    assert account.at("2027-01-01T00:00") == ([], BEFORE_AND_AFTER)
    assert not account.failed()

    # Another size sets the number of nodes back to that of the template, which the diff refuses while there are any.
    eks = account.client("eks")
    (name,) = [each for each in eks.list_nodegroups(clusterName="life")["nodegroups"] if "Undrained" in each]
    eks.update_nodegroup_config(clusterName="life", nodegroupName=name, scalingConfig={"desiredSize": 2})
    larger = platform(max_count=9)
    (refusal,) = account.diff(larger).refused
    assert (refusal.name, refusal.key) == ("undrained", "node_groups[1].max_count")
    assert refusal.what == "would lose 2 of its 2 running nodes"
    account.deploy(larger)
    assert account.at("2027-01-01T00:00") == ([], BEFORE_AND_AFTER)


@pytest.mark.exhaustive
def test_a_call_that_may_not_be_made_is_in_the_queue(account: Account) -> None:
    account.deploy(platform())
    iam = account.client("iam")
    (role,) = [each for each in iam.list_roles()["Roles"] if "CapacityRole" in each["RoleName"]]
    name, trust = role["RoleName"], role["AssumeRolePolicyDocument"]
    (policy,) = iam.list_role_policies(RoleName=name)["PolicyNames"]
    document = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
    without = [each for each in document["Statement"] if each["Action"] != "eks:UpdateNodegroupConfig"]
    assert len(without) == len(document["Statement"]) - 1
    iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=json.dumps(document | {"Statement": without}))
    happened, nodes = account.at("2026-12-01T12:00")
    assert nodes == BEFORE_AND_AFTER
    assert all("is not authorized to perform eks:UpdateNodegroupConfig" in each for each in happened)
    assert len(happened) == len(account.failed()) == 2

    # A role that Scheduler may not assume reaches no queue either.
    trust["Statement"][0]["Condition"]["StringEquals"]["aws:SourceAccount"] = "999999999999"
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
    happened, _ = account.at("2026-12-08T10:46")
    assert all("is not authorized to assume" in each for each in happened) and happened
    assert not account.failed()
