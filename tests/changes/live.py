"""A platform that lives on the emulated AWS, and the edits of its file that are deployed to it one after another."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emulator import Emulator
from tests.changes.emulated_account import EmulatedAccount
from tests.synthesis import assembly_in, role_of
from trainway.diff.assembly import SynthesizedStack, read_assembly
from trainway.diff.change_sets import CAPABILITIES
from trainway.diff.look import look_at
from trainway.diff.report import DiffReport
from trainway.diff.tokens import StackTemplate
from trainway.spec import strict_yaml
from trainway.spec.deployment.next_lock import deployed_lock, next_lock
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.lock import lock_file, lock_text
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError

CATALOGUE = load_catalogue()
Document = dict[str, Any]
# The CDK's runtime serves one thread at a time.
ONE_AT_A_TIME = threading.Lock()
# What a deploy waits for, and what a build is told: new with every content that is delivered.
OF_A_DELIVERY = {"AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle"}
# What holds data or running nodes. A subnet is not here: the emulator deletes none that something is in.
NODE_GROUP = "AWS::EKS::Nodegroup"
GUARDED = {
    NODE_GROUP,
    "AWS::EC2::VPC",
    "AWS::EKS::Cluster",
    "AWS::FSx::FileSystem",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Cluster",
}


@dataclass(frozen=True)
class Outcome:
    """What came of an edit.

    `refused` is the reason why nothing was changed. `report` is what `trainway diff` says, unless the file is wrong.
    `moved` has the resources that were created, deleted, or replaced, as `role/logical id`, but for those of a
    delivery. `lost` has those of them that held data or running nodes, by the names that `--allow-replace` takes.
    """

    refused: str | None = None
    report: DiffReport | None = None
    moved: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Return the `--allow-replace` names of the resources that `trainway diff` refuses to delete or replace."""
        return frozenset(each.name for each in self.report.refused) if self.report else frozenset()


class NotDeployedError(AssertionError):
    """A deploy or a deletion that began and did not end."""


@dataclass
class Live:
    """A platform, its file and lock in a directory, and its stacks.

    `document` is what was deployed last, and `created` is what came of the first deploy.
    """

    emulator: Emulator
    directory: Path
    name: str
    document: Document | None = None
    created: Outcome = Outcome()
    # The file and the lock of the last deploy.
    _kept: tuple[str | None, str | None] = (None, None)
    _account: EmulatedAccount = field(init=False)
    # The templates of the deployed stacks, by the stack's name.
    _texts: dict[str, str] = field(default_factory=dict)
    _client: Any = field(init=False)

    def __post_init__(self) -> None:
        self._account = EmulatedAccount(self.emulator)
        self._client = self._account.client("cloudformation")

    @property
    def file(self) -> Path:
        return self.directory / "platform.yaml"

    @property
    def platform(self) -> Platform:
        """Return the platform as its file and its lock are now."""
        return load_platform(self.file, CATALOGUE)

    def write(self, document: Document) -> Path:
        """Write a file beside the deployed lock, and then the lock with which `make deploy` begins; return the file.

        Raises SpecError for a wrong file.
        """
        self._restore()
        self.file.write_text(strict_yaml.dump(document), encoding="utf-8")
        platform = self.platform
        lock_file(self.file).write_text(lock_text(next_lock(platform, CATALOGUE)), encoding="utf-8")
        return self.file

    def edit(
        self,
        document: Document,
        allowed: Collection[str] | None = (),
        *,
        with_keys: bool = False,
        told_only: bool = False,
    ) -> Outcome:
        """Deploy the platform that the document describes, as `make deploy` does, or say why it is refused.

        `allowed` are the names of what the deploy may lose although `trainway diff` refuses it; None for all.
        `with_keys` makes the report name the key of each refusal, which may take several syntheses. With `told_only`,
        nothing is deployed.
        """
        deployed, self.document = self.document, None
        try:
            self.write(document)
        except SpecError as error:
            self._restore()
            self.document = deployed
            return Outcome(refused=str(error))
        platform = self.platform
        assembly = assembly_in(platform)
        synthesis = templates_of_file if with_keys else _no_trial
        report = look_at(assembly, platform, self.file, self._account, synthesis=synthesis)
        assert self.is_clean(), "the diff left a change set, or an empty stack"
        looked = Outcome(report=report)
        never = any(not each.can_be_allowed for each in report.refused)
        if told_only or never or not (allowed is None or looked.names <= set(allowed)):
            self._restore()
            self.document = deployed
            if told_only:
                return looked
            return replace(looked, refused=" ".join(f"{each.name} {each.what}" for each in report.refused))
        there, with_nodes = self._resources(), self._groups(nodes=True)
        stacks = read_assembly(assembly)
        for stack in (*(stacks[name] for name in report.first), *stacks.values()):
            # The CDK's command line skips a stack with the same template, too.
            if stack.text != self._texts.get(stack.name):
                self._deploy(stack)
        for name in report.left_alone:
            self._client.delete_stack(StackName=name)
            del self._texts[name]
        lock_file(self.file).write_text(lock_text(deployed_lock(platform, CATALOGUE)), encoding="utf-8")
        self._kept = _text_of(self.file), _text_of(lock_file(self.file))
        self.document = document
        now = self._resources()
        moved = {name for name in there.keys() | now.keys() if there.get(name) != now.get(name)}
        # The file itself takes nodes from a group whose count it lowers. The diff tells that, and does not refuse it.
        still = self._groups()
        held = {name for name in moved & there.keys() if there[name][1] in GUARDED}
        held |= {name for name, nodes in with_nodes.items() if name not in there and still.get(name) != nodes}
        empty = {name for name in held if there.get(name, ("", ""))[1] == NODE_GROUP and name not in with_nodes}
        told = {f"{role_of(s.name, self.name)}/{r.logical_id}": r.name for s in report.stacks for r in s.resources}
        lost = frozenset(told.get(name, name) for name in held - empty)
        return replace(looked, moved=frozenset(moved), lost=lost)

    def is_clean(self) -> bool:
        """Return whether `trainway diff` deleted all of its change sets and empty stacks."""
        stacks = self._stacks()
        listed = [each for name in stacks for each in self._client.list_change_sets(StackName=name)["Summaries"]]
        left = [each for each in listed if each["ChangeSetName"].startswith("trainway-diff")]
        return not left and "REVIEW_IN_PROGRESS" not in stacks.values()

    def destroy(self) -> None:
        """Delete the stacks, those that others stand on last. Raises NotDeployedError for one that stays."""
        for stack in reversed(read_assembly(assembly_in(self.platform))):
            self._client.delete_stack(StackName=stack)
            if left := self._stacks().get(stack):
                raise NotDeployedError(f"{stack} is {left}: {self._reasons(stack)}")
        self.document = None

    def physical_ids(self) -> dict[str, str]:
        """Return what the stacks have, by `role/logical id`."""
        return {name: physical_id for name, (physical_id, _) in self._resources().items()}

    def _resources(self) -> dict[str, tuple[str, str]]:
        """Return the physical ID and the type of what the stacks have, by `role/logical id`."""
        return {
            f"{role_of(each['stack'], self.name)}/{each['logical_id']}": (each["physical_id"], each["type"])
            for each in self.emulator.resources()
            if each["stack"].startswith(f"{self.name}-")
            and each["type"] not in OF_A_DELIVERY
            and each["status"] != "DELETE_SKIPPED"
        }

    def _groups(self, *, nodes: bool = False) -> dict[str, str]:
        """Return the instance types of the node groups, by `cluster/logical id` or `…/group`.

        With `nodes`, groups without nodes are left out. A group of HyperPod is a part of the cluster, and has no
        physical ID of its own.
        """
        resources = json.loads(self._texts.get(f"{self.name}-cluster", "{}")).get("Resources", {})
        found = {}
        for logical_id, properties in ((name, each.get("Properties", {})) for name, each in resources.items()):
            scaling = properties.get("ScalingConfig")
            if scaling and (scaling["DesiredSize"] or not nodes):
                found[f"cluster/{logical_id}"] = str(properties["InstanceTypes"])
            for group in properties.get("InstanceGroups", []):
                if group["InstanceCount"] or not nodes:
                    found[f"cluster/{logical_id}/{group['InstanceGroupName']}"] = str(group["InstanceType"])
        return found

    def templates(self) -> dict[str, Any]:
        """Return the templates of the live stacks by role."""
        return {
            role_of(name, self.name): self._client.get_template(StackName=name)["TemplateBody"]
            for name in self._stacks()
        }

    def _deploy(self, stack: SynthesizedStack) -> None:
        kind = "UPDATE" if stack.name in self._texts else "CREATE"
        self._client.create_change_set(
            StackName=stack.name,
            ChangeSetName="deploy",
            ChangeSetType=kind,
            TemplateBody=stack.text,
            Capabilities=CAPABILITIES,
        )
        change_set = self._client.describe_change_set(StackName=stack.name, ChangeSetName="deploy")
        if change_set["Status"] == "FAILED" and "didn't contain changes" in change_set["StatusReason"]:
            return
        assert change_set["Status"] == "CREATE_COMPLETE", f"{stack.name}: {change_set['StatusReason']}"
        self._client.execute_change_set(StackName=stack.name, ChangeSetName="deploy")
        (found,) = self._client.describe_stacks(StackName=stack.name)["Stacks"]
        if found["StackStatus"] != f"{kind}_COMPLETE":
            raise NotDeployedError(f"{stack.name} is {found['StackStatus']}: {self._reasons(stack.name)}")
        self._texts[stack.name] = stack.text

    def _reasons(self, stack: str) -> list[str]:
        """Return what the last failures of a stack's resources were, the last first."""
        events = self._client.describe_stack_events(StackName=stack)["StackEvents"]
        return [event["ResourceStatusReason"] for event in events if event.get("ResourceStatusReason")][:4]

    def _stacks(self) -> dict[str, str]:
        found = self._client.describe_stacks()["Stacks"]
        ours = [each for each in found if each["StackName"].startswith(f"{self.name}-")]
        return {each["StackName"]: each["StackStatus"] for each in ours}

    def _restore(self) -> None:
        """Write the file and the lock of the last deploy again."""
        for file, text in zip((self.file, lock_file(self.file)), self._kept, strict=True):
            if text is not None:
                file.write_text(text, encoding="utf-8")
            else:
                file.unlink(missing_ok=True)


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def synthesize_here(file: Path, out: Path, **_options: Any) -> None:
    """Synthesize as `trainway.diff.assembly.synthesize` does, in this process and with the tests' cache."""
    with ONE_AT_A_TIME:
        # The diff does not read the 330 files of the bundles.
        shutil.copytree(assembly_in(file), out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("bundles"))


def templates_of_file(file: Path) -> dict[str, StackTemplate]:
    """Return the templates of a platform file by the stack's name."""
    with ONE_AT_A_TIME:
        return {name: stack.template for name, stack in read_assembly(assembly_in(file)).items()}


def _no_trial(_file: Path) -> dict[str, StackTemplate]:
    """Raise the error of an invalid file. A trial synthesis is slow, so only tests that need the key run it."""
    raise usage_error("no key is named", why="this test does not ask for it", fix="see Live.edit")
