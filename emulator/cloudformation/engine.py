"""The emulated CloudFormation of one region. A stack reaches the state of a change set, or rolls back.

moto's own engine is not used: it ignores DependsOn, skips unknown types, reports internal errors as success, and does
not roll back. The states are those of the API's StackStatus and ResourceStatus. An operation is finished when its call
returns, so a client that polls never waits.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from emulator.cloudformation import deploy
from emulator.cloudformation.preview import check_attributes, preview
from emulator.cloudformation.resources import Resource, chosen_identifier
from emulator.cloudformation.stacks import ChangeSet, Desired, Output, Stack, now
from emulator.errors import (
    AlreadyExists,
    ChangeSetNotFound,
    CloudFormationError,
    InsufficientCapabilities,
    InvalidChangeSetStatus,
    NotEmulated,
    ResourceError,
    UnrecognizedType,
)
from emulator.registry.schema import Properties, load
from emulator.services import Aws
from emulator.templates import parameters
from emulator.templates.intrinsics import Scope
from emulator.templates.template import parse

NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."
INVALID = "The following hook(s)/validation failed: [AWS::EarlyValidation::PropertyValidation]."
SETTLED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")


class Engine:
    """All stacks of one account and region."""

    def __init__(self, aws: Aws) -> None:
        self.aws = aws
        self.stacks: list[Stack] = []
        self.left: list[tuple[str, Resource]] = []  # by stack name: resources that a deletion or an update left behind
        self.lock = threading.RLock()

    def find(self, name_or_id: str) -> Stack:
        """Return the stack of that ID (deleted ones too) or name. Raises CloudFormationError if there is none."""
        for stack in reversed(self.stacks):
            if stack.id == name_or_id or (stack.name == name_or_id and stack.deleted is None):
                return stack
        raise CloudFormationError(f"Stack with id {name_or_id} does not exist")

    def live(self) -> list[Stack]:
        """Return the stacks that are not deleted."""
        return [stack for stack in self.stacks if stack.deleted is None]

    def exports(self) -> dict[str, tuple[Stack, str]]:
        """Return the exporting stack and the value of each export, by export name."""
        return {name: (stack, value) for stack in self.live() for name, value in stack.exports.items()}

    def importers(self, export: str) -> list[str]:
        """Return the names of the stacks that import an export."""
        return [stack.name for stack in self.live() if export in stack.imports]

    def desired(self, body: str, given: list[dict[str, Any]], tags: dict[str, str], capabilities: list[str],
                previous: Desired | None, *, import_existing: bool = False) -> Desired:  # fmt: skip
        """Check a template as CloudFormation does before anything else, and return it as a target state.

        Raises CloudFormationError.
        """
        template = parse(body)
        kinds = [resource["Type"] for resource in template.resources.values()]
        if unknown := sorted({kind for kind in kinds if not self._recognized(kind)}):
            raise UnrecognizedType(unknown)
        if any(kind.startswith("AWS::IAM::") for kind in kinds) and not {*capabilities} & {
            "CAPABILITY_IAM", "CAPABILITY_NAMED_IAM",
        }:  # fmt: skip
            raise InsufficientCapabilities("Requires capabilities : [CAPABILITY_NAMED_IAM]")
        values = parameters.given_values(template, given, previous.given_parameters if previous else {})
        resolved = parameters.resolved_values(template, values, self._ssm_parameter)
        desired = Desired(template, resolved, values, tags, tuple(capabilities), import_existing)
        if wrong := check_attributes(desired, self.aws.region):
            raise CloudFormationError(wrong[0])
        return desired

    def create_change_set(
        self, stack_name: str, name: str, kind: str, desired: Desired, description: str | None
    ) -> ChangeSet:
        """Preview a change. A change set without changes, or an invalid one, has status FAILED and a reason."""
        stack = self._stack_for(stack_name, kind)

        def make_scope(wanted: Desired, ref: Callable[[str], Any], attribute: Callable[[str, str], Any]) -> Scope:
            return self._scope(stack, wanted, ref, attribute, set())

        def there(logical_id: str, definition: dict[str, Any], properties: Properties) -> Resource | None:
            return deploy.importable(self.aws, stack.name, logical_id, definition, properties, desired, self._owned)

        before = stack.desired.parameters
        changes, problems = preview(desired, stack.resources, self.aws.region, make_scope, there, before)
        change_set = ChangeSet(
            name, self._arn("changeSet", name), kind, desired, description, changes,
            [(name, desired.template.resources[name]["Type"], *problem) for name, problem in problems],
        )  # fmt: skip
        if change_set.problems:
            listed = "; ".join(f"{logical_id} #{path}: {reason}" for logical_id, _, path, reason in change_set.problems)
            change_set.reason = f"{INVALID} {listed}"
        elif kind == "UPDATE" and not changes and _same(stack.desired, desired):
            change_set.reason = NO_CHANGES
        if change_set.reason:
            change_set.status, change_set.execution_status = "FAILED", "UNAVAILABLE"
        if stack not in self.stacks:
            stack.enter("REVIEW_IN_PROGRESS", "User Initiated")
            self.stacks.append(stack)
        stack.change_sets = [old for old in stack.change_sets if old.name != name] + [change_set]
        return change_set

    def find_change_set(self, name_or_id: str, stack: str | None) -> tuple[Stack, ChangeSet]:
        """Return a change set by ID, or by name within its stack. Raises ChangeSetNotFound."""
        for candidate in [self.find(stack)] if stack else reversed(self.stacks):
            for change_set in candidate.change_sets:
                if name_or_id in (change_set.id, change_set.name):
                    return candidate, change_set
        raise ChangeSetNotFound(f"ChangeSet [{name_or_id}] does not exist")

    def execute(self, stack: Stack, change_set: ChangeSet) -> None:
        """Deploy a change set until it is complete or rolled back. Raises InvalidChangeSetStatus."""
        if change_set.execution_status != "AVAILABLE":
            raise InvalidChangeSetStatus(
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of [{change_set.status}]"
            )
        change_set.execution_status = "EXECUTE_IN_PROGRESS"
        complete = self._deploy(stack, change_set.desired, change_set.type)
        change_set.execution_status = "EXECUTE_COMPLETE" if complete else "EXECUTE_FAILED"
        stack.change_sets = [change_set]

    def delete(self, stack: Stack) -> None:
        """Delete a stack and the resources that it does not retain. Its events and its status report problems."""
        if stack.termination_protection:
            raise CloudFormationError(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
        if stack.deleted is not None:
            return
        stack.enter("DELETE_IN_PROGRESS", "User Initiated")
        for export in stack.exports:
            if users := self.importers(export):
                stack.enter("DELETE_FAILED", f"Cannot delete export {export} as it is in use by {', '.join(users)}.")
                return
        for resource in deploy.deletion_order(stack.desired, list(stack.resources.values())):
            if deploy.delete_unless_kept(self.aws, stack, resource, self._resources()):
                del stack.resources[resource.logical_id]
        stuck = [
            name for name, item in stack.resources.items() if item.settings.get("DeletionPolicy") not in deploy.KEPT
        ]
        if stuck:
            stack.enter("DELETE_FAILED", f"The following resource(s) failed to delete: [{', '.join(stuck)}].")
            return
        self.left += [(stack.name, resource) for resource in stack.resources.values()]
        stack.resources, stack.outputs, stack.imports = {}, [], set()
        stack.deleted = now()
        stack.enter("DELETE_COMPLETE")

    def _deploy(self, stack: Stack, desired: Desired, kind: str) -> bool:
        stack.enter(f"{kind}_IN_PROGRESS", "User Initiated")
        deployment = deploy.Deployment(self.aws, stack, desired, self._taken, self._owned, self._resources)
        imports: set[str] = set()
        scope = self._scope(stack, desired, deployment.ref, deployment.attribute, imports)
        try:
            outputs = deployment.apply(scope)
            self._check_exports(stack, outputs)
        except (ResourceError, CloudFormationError) as error:
            rollback = "ROLLBACK" if kind == "CREATE" else "UPDATE_ROLLBACK"
            stack.enter(f"{rollback}_IN_PROGRESS", f"{error} Rollback requested by user.")
            stuck = deployment.roll_back()
            stack.enter(
                f"{rollback}_FAILED" if stuck else f"{rollback}_COMPLETE", f"Could not undo {stuck}" if stuck else None
            )
            self.left += [(stack.name, resource) for resource in deployment.left]
            if kind == "CREATE":
                stack.desired = desired  # after a rollback, GetTemplate still returns the template that was tried
            return False
        if kind == "UPDATE":
            stack.enter("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            stack.updated = now()
        deployment.clean_up()
        joined = {(resource.type, resource.physical_id) for resource in deployment.imported}
        self.left = [each for each in self.left if (each[1].type, each[1].physical_id) not in joined]
        self.left += [(stack.name, resource) for resource in deployment.left]
        stack.desired, stack.outputs, stack.imports = desired, outputs, imports
        stack.enter(f"{kind}_COMPLETE")
        return True

    def _check_exports(self, stack: Stack, outputs: list[Output]) -> None:
        exported = {output.export: output.value for output in outputs if output.export}
        for name in exported:
            owner = self.exports().get(name)
            if owner and owner[0] is not stack:
                raise CloudFormationError(f"Export with name {name} is already exported by stack {owner[0].name}")
        for name, value in stack.exports.items():
            users = [user for user in self.importers(name) if user != stack.name]
            if users and exported.get(name) != value:
                verb = "updated" if name in exported else "deleted"
                raise CloudFormationError(f"Export {name} cannot be {verb} as it is in use by {', '.join(users)}")

    def _scope(self, stack: Stack, desired: Desired, ref: Callable[[str], Any],
               attribute: Callable[[str, str], Any], imports: set[str]) -> Scope:  # fmt: skip
        def import_value(name: str) -> str:
            if name not in self.exports():
                raise CloudFormationError(f"No export named {name} found.")
            imports.add(name)
            return self.exports()[name][1]

        pseudo = {
            "AWS::AccountId": self.aws.account, "AWS::NotificationARNs": [], "AWS::Partition": "aws",
            "AWS::Region": self.aws.region, "AWS::StackId": stack.id, "AWS::StackName": stack.name,
            "AWS::URLSuffix": "amazonaws.com",
        }  # fmt: skip
        return Scope(
            parameters={**desired.parameters, **pseudo},
            mappings=desired.template.section("Mappings"),
            conditions=desired.template.section("Conditions"),
            resource_ids=frozenset(desired.template.resources),
            ref=ref,
            attribute=attribute,
            import_value=import_value,
            availability_zones=self._availability_zones,
            ssm_parameter=self._ssm_parameter,
        )

    def _stack_for(self, name: str, kind: str) -> Stack:
        existing = next((stack for stack in self.live() if stack.name == name), None)
        if kind == "CREATE":
            if existing and existing.status != "REVIEW_IN_PROGRESS":
                raise AlreadyExists(f"Stack [{name}] already exists and cannot be created again with the changeSet")
            return existing or Stack(name, self._arn("stack", name))
        if kind != "UPDATE":
            raise NotEmulated(f"Change sets of type {kind} are not emulated")
        stack = existing or self.find(name)
        if stack.status not in SETTLED:
            raise CloudFormationError(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        return stack

    def _taken(self, kind: str, identifier: tuple[str, ...]) -> bool:
        """Return whether the resource exists. For a resource that a stack retained, the emulated service decides."""
        records = [resource for _, resource in self.left if resource.depth == "record"]
        return self._owned(kind, identifier) or self._is_among(records, kind, identifier)

    def _owned(self, kind: str, identifier: tuple[str, ...]) -> bool:
        """Return whether the resource is in a stack."""
        return self._is_among(self._resources(), kind, identifier)

    def _resources(self) -> list[Resource]:
        """Return the resources in all stacks."""
        return [each for stack in self.live() for each in stack.resources.values()]

    def _is_among(self, resources: list[Resource], kind: str, identifier: tuple[str, ...]) -> bool:
        schema = load(kind, self.aws.region)
        return any(each.type == kind and chosen_identifier(schema, each.model) == identifier for each in resources)

    def _recognized(self, kind: str) -> bool:
        try:
            load(kind, self.aws.region)
        except UnrecognizedType:
            return False
        return True

    def _arn(self, kind: str, name: str) -> str:
        return f"arn:aws:cloudformation:{self.aws.region}:{self.aws.account}:{kind}/{name}/{uuid.uuid4()}"

    def _availability_zones(self, region: str) -> list[str]:
        if region != self.aws.region:
            raise NotEmulated(f"Fn::GetAZs of {region} from a stack in {self.aws.region}")
        zones = self.aws.client("ec2").describe_availability_zones()["AvailabilityZones"]
        return [zone["ZoneName"] for zone in zones if zone.get("ZoneType") in (None, "availability-zone")]

    def _ssm_parameter(self, name: str) -> str:
        ssm = self.aws.client("ssm")
        try:
            return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            raise CloudFormationError(f"Unable to fetch parameters [{name}] from parameter store") from None


def _same(old: Desired, new: Desired) -> bool:
    """Return whether an update would change nothing. A value may be equal although another function gives it.

    A change of only the template's metadata is not an update (CloudFormation user guide, "Metadata").
    """
    documents = [
        {key: section for key, section in each.template.document.items() if key != "Metadata"} for each in (old, new)
    ]
    return old.tags == new.tags and documents[0] == documents[1]
