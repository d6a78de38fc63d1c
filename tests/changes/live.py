"""A platform that lives on the emulated AWS, and the edits of its file that are deployed to it one after another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import yaml

from emulator import Emulator
from tests.synthesis import assembly_in, role_of, stack_dependencies, templates_of
from trainway.spec.derived.next_lock import deployed_lock, next_lock
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.lock import lock_file, lock_text
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError

CATALOGUE = load_catalogue()
Document = dict[str, Any]
# What a deploy waits for, and what a build is told: new with every content that is delivered.
OF_A_DELIVERY = {"AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle"}
# What holds data or running nodes, and what nothing can be moved out of.
GUARDED = {
    "AWS::EC2::VPC",
    "AWS::EKS::Cluster",
    "AWS::FSx::FileSystem",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Cluster",
}
# Whether CloudFormation changes these of a file system in place is open: docs/unproven.md.
IN_DOUBT = ("/PerUnitStorageThroughput", "/EfaEnabled")


@dataclass(frozen=True)
class Outcome:
    """What came of an edit.

    `refused` is the reason why nothing was changed. `moved` has the resources that were created, deleted, or replaced,
    as `role/logical id`, but for those of a delivery.
    """

    refused: str | None = None
    moved: frozenset[str] = frozenset()


class NotDeployedError(AssertionError):
    """A deploy or a deletion that began and did not end."""


@dataclass
class Live:
    """A platform, its file and lock in a directory, and its stacks. `document` is what was deployed last."""

    emulator: Emulator
    directory: Path
    name: str
    document: Document | None = None
    _client: Any = field(init=False)

    def __post_init__(self) -> None:
        session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=self.emulator.region)
        self._client = session.client("cloudformation", endpoint_url=self.emulator.endpoint)
        # What `cdk bootstrap` leaves, and every template asks for.
        ssm = session.client("ssm", endpoint_url=self.emulator.endpoint)
        ssm.put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True)

    @property
    def file(self) -> Path:
        return self.directory / "platform.yaml"

    @property
    def platform(self) -> Platform:
        """Return the platform as its file and its lock are now."""
        return load_platform(self.file, CATALOGUE)

    def edit(self, document: Document, *, allowed: str = "") -> Outcome:
        """Deploy the platform that the document describes, as `make deploy` does, or say why it is refused.

        `allowed` is a pattern of what may be deleted or replaced all the same, as `role/logical id`.
        """
        deployed, self.document = self.document, None
        before = self._text_of(self.file), self._text_of(lock_file(self.file))
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))
        try:
            platform = self.platform
        except SpecError as error:
            self._restore(*before)
            self.document = deployed
            return Outcome(refused=str(error))
        platform = platform.with_lock(next_lock(platform, CATALOGUE))
        templates, needs = templates_of(platform), stack_dependencies(assembly_in(platform))
        order = list(_in_order(needs))
        if reason := self._refused(templates, order, allowed):
            self._restore(*before)
            self.document = deployed
            return Outcome(refused=reason)
        lock_file(self.file).write_text(lock_text(platform.lock))
        there = self.physical_ids()
        for role in order:
            self._deploy(f"{self.name}-{role}", templates[role])
        for name in sorted(self._stacks()):
            if role_of(name, self.name) not in templates:
                self._client.delete_stack(StackName=name)
        lock_file(self.file).write_text(lock_text(deployed_lock(platform, CATALOGUE)))
        now = self.physical_ids()
        self.document = document
        moved = {name for name in there.keys() | now.keys() if there.get(name) != now.get(name)}
        return Outcome(moved=frozenset(moved))

    def destroy(self) -> None:
        """Delete the stacks, those that others stand on last. Raises NotDeployedError for one that stays."""
        for role in reversed(list(_in_order(stack_dependencies(assembly_in(self.platform))))):
            self._client.delete_stack(StackName=f"{self.name}-{role}")
            if left := self._stacks().get(f"{self.name}-{role}"):
                raise NotDeployedError(f"{role} is {left}: {self._reasons(f'{self.name}-{role}')}")
        self.document = None

    def physical_ids(self) -> dict[str, str]:
        """Return what the stacks have, by `role/logical id`."""
        return {
            f"{role_of(each['stack'], self.name)}/{each['logical_id']}": each["physical_id"]
            for each in self.emulator.resources()
            if each["stack"].startswith(f"{self.name}-")
            and each["type"] not in OF_A_DELIVERY
            and each["status"] != "DELETE_SKIPPED"
        }

    def templates(self) -> dict[str, Any]:
        """Return the templates of the live stacks by role."""
        return {
            role_of(name, self.name): self._client.get_template(StackName=name)["TemplateBody"]
            for name in self._stacks()
        }

    def _refused(self, templates: dict[str, Any], order: list[str], allowed: str) -> str | None:
        """Return what the change sets of the live stacks would replace or delete that holds data or nodes."""
        live = self._stacks()
        for role in order:
            name = f"{self.name}-{role}"
            if name not in live:
                continue
            change_set = self._change_set(name, templates[role], "UPDATE", "preview")
            for change in (each["ResourceChange"] for each in change_set.get("Changes", [])):
                where = f"{role}/{change['LogicalResourceId']}"
                if change["ResourceType"] in GUARDED and _may_go(change) and not re.fullmatch(allowed, where):
                    return f"{change['ResourceType']} {where} would be lost"
        return None

    def _change_set(self, stack: str, template: Any, kind: str, name: str) -> dict[str, Any]:
        try:
            self._client.create_change_set(
                StackName=stack,
                ChangeSetName=name,
                ChangeSetType=kind,
                TemplateBody=json.dumps(template),
                Capabilities=["CAPABILITY_NAMED_IAM"],
            )
        except self._client.exceptions.ClientError as error:
            # A producer that is deployed first has not got its new export yet.
            if name == "preview" and "No export named" in str(error):
                return {}
            raise
        found: dict[str, Any] = self._client.describe_change_set(StackName=stack, ChangeSetName=name)
        return found

    def _deploy(self, stack: str, template: Any) -> None:
        kind = "UPDATE" if stack in self._stacks() else "CREATE"
        change_set = self._change_set(stack, template, kind, "deploy")
        if change_set["Status"] == "FAILED" and "didn't contain changes" in change_set["StatusReason"]:
            return
        assert change_set["Status"] == "CREATE_COMPLETE", f"{stack}: {change_set['StatusReason']}"
        self._client.execute_change_set(StackName=stack, ChangeSetName="deploy")
        status = self._stacks()[stack]
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            raise NotDeployedError(f"{stack} is {status}: {self._reasons(stack)}")

    def _reasons(self, stack: str) -> list[str]:
        """Return what the last failures of a stack's resources were, the last first."""
        events = self._client.describe_stack_events(StackName=stack)["StackEvents"]
        return [event["ResourceStatusReason"] for event in events if event.get("ResourceStatusReason")][:4]

    def _stacks(self) -> dict[str, str]:
        found = self._client.describe_stacks()["Stacks"]
        ours = [each for each in found if each["StackName"].startswith(f"{self.name}-")]
        return {each["StackName"]: each["StackStatus"] for each in ours}

    def _text_of(self, file: Path) -> str | None:
        return file.read_text() if file.exists() else None

    def _restore(self, document: str | None, lock: str | None) -> None:
        for file, text in ((self.file, document), (lock_file(self.file), lock)):
            if text is not None:
                file.write_text(text)


def _may_go(change: dict[str, Any]) -> bool:
    """Return whether a change deletes or replaces a resource, or may do so."""
    paths = [detail["Target"].get("Path", "") for detail in change["Details"]]
    doubtful = any(path.endswith(name) for path in paths for name in IN_DOUBT)
    return change["Action"] == "Remove" or change.get("Replacement") == "True" or doubtful


def _in_order(needs: dict[str, list[str]]) -> Iterator[str]:
    """Yield the roles of stacks, each after those that it is deployed after."""
    done: set[str] = set()
    while len(done) < len(needs):
        ready = sorted(role for role in needs if role not in done and set(needs[role]) <= done)
        yield from ready
        done |= set(ready)
