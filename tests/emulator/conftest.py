"""One emulator a module, and the few words in which the tests talk to it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from emulator import Emulator, running

Template = dict[str, Any]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Callable[[str], Any]:
    """A boto3 client of the emulated AWS, by service name."""
    session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=emulator.region)
    make: Any = session.client
    made: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in made:
            made[service] = make(service, endpoint_url=emulator.endpoint)
        return made[service]

    return client


class Stack:
    """A stack under test: deploy templates to it, and look at what came of it."""

    def __init__(self, emulator: Emulator, cloudformation: Any) -> None:
        self.name = f"t-{uuid.uuid4().hex[:8]}"
        self.emulator, self.cloudformation = emulator, cloudformation

    def change_set(self, resources: Template, kind: str = "CREATE", **rest: Any) -> dict[str, Any]:
        """Make a change set and describe it."""
        arguments = {
            key: rest.pop(key)
            for key in ("Parameters", "Tags", "ImportExistingResources")
            if key in rest and isinstance(rest[key], list | bool)
        }
        self.cloudformation.create_change_set(
            StackName=self.name,
            ChangeSetName="change",
            ChangeSetType=kind,
            TemplateBody=json.dumps({"Resources": resources, **rest}),
            Capabilities=["CAPABILITY_NAMED_IAM"],
            **arguments,
        )
        described: dict[str, Any] = self.cloudformation.describe_change_set(StackName=self.name, ChangeSetName="change")
        return described

    def deploy(self, resources: Template, **rest: Any) -> str:
        """Make and execute a change set; returns the stack's status."""
        kind = "UPDATE" if self.exists() else "CREATE"
        described = self.change_set(resources, kind, **rest)
        assert described["Status"] == "CREATE_COMPLETE", described["StatusReason"]
        self.cloudformation.execute_change_set(StackName=self.name, ChangeSetName="change")
        return self.status()

    def exists(self) -> bool:
        names = [stack["StackName"] for stack in self.cloudformation.describe_stacks()["Stacks"]]
        return self.name in names

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        return described

    def status(self) -> str:
        return str(self.describe()["StackStatus"])

    def outputs(self) -> dict[str, str]:
        return {output["OutputKey"]: output["OutputValue"] for output in self.describe()["Outputs"]}

    def resources(self) -> dict[str, dict[str, str]]:
        """By logical id, what /_trainway/resources says of this stack."""
        return {item["logical_id"]: item for item in self.emulator.resources() if item["stack"] == self.name}

    def physical_id(self, logical_id: str) -> str:
        return self.resources()[logical_id]["physical_id"]

    def events(self, status: str) -> dict[str, str]:
        """Logical id → reason, for the events in a status."""
        events = self.cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return {
            event["LogicalResourceId"]: event.get("ResourceStatusReason", "")
            for event in events
            if event["ResourceStatus"] == status
        }

    def delete(self) -> str:
        """Delete the stack; returns its last status."""
        stack_id = self.describe()["StackId"]
        self.cloudformation.delete_stack(StackName=self.name)
        return str(self.cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"])


@pytest.fixture
def stack(emulator: Emulator, client: Callable[[str], Any]) -> Stack:
    return Stack(emulator, client("cloudformation"))


@pytest.fixture
def other_stack(emulator: Emulator, client: Callable[[str], Any]) -> Stack:
    return Stack(emulator, client("cloudformation"))
