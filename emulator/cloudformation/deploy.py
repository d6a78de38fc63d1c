"""Deploy a template to a stack, one resource after another, and undo everything if one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from emulator.cloudformation import resources
from emulator.cloudformation.holders import refuse_while_in_use
from emulator.cloudformation.preview import settings
from emulator.cloudformation.resources import Resource
from emulator.cloudformation.stacks import Desired, Output, Stack
from emulator.errors import CloudFormationError, ResourceError
from emulator.registry.records import attribute
from emulator.registry.schema import Properties, load
from emulator.services import Aws
from emulator.templates.intrinsics import NO_VALUE, Scope, as_text, resolve
from emulator.templates.template import creation_order

IsThere = Callable[[str, tuple[str, ...]], bool]
Live = Callable[[], Iterable[resources.Resource]]
KEPT = ("Retain", "RetainExceptOnCreate", "Snapshot")
REPLACING = "Requested update requires the creation of a new physical resource; hence creating one."


class Deployment:
    """One update of one stack. Creation is an update from nothing.

    `taken` returns whether a resource of a type and identifier exists already, and `owned` whether it is in a stack.
    `live` returns the resources of all stacks. `left` are the resources that this deployment leaves behind without a
    stack: retained, or impossible to delete.
    """

    def __init__(self, aws: Aws, stack: Stack, desired: Desired, taken: IsThere, owned: IsThere, live: Live) -> None:
        self.aws, self.stack, self.desired, self.taken, self.owned = aws, stack, desired, taken, owned
        self.live = live
        self.before = dict(stack.resources)
        self.left: list[Resource] = []
        self._active: dict[str, Any] = {}
        self._replaced: list[Resource] = []
        self.imported: list[Resource] = []
        self._done: list[tuple[Resource, Resource | None]] = []  # what was created or changed, and its previous state

    def ref(self, logical_id: str) -> str:
        """Return the Ref of a resource that exists by now."""
        return self.stack.resources[logical_id].physical_id

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return the Fn::GetAtt of a resource that exists by now."""
        resource = self.stack.resources[logical_id]
        return attribute(load(resource.type, self.aws.region), resource.model, name)

    def apply(self, scope: Scope) -> list[Output]:
        """Create and update everything. Resources that are no longer wanted stay until `clean_up`.

        Returns the outputs. Raises ResourceError after reporting which resource failed, or CloudFormationError for an
        output. The caller then has to `roll_back`.
        """
        self._active = self.desired.template.active_resources(scope)
        for logical_id, definition in self._active.items():
            kind = definition["Type"]
            try:
                properties = load(kind, self.aws.region).coerce(resolve(definition.get("Properties", {}), scope))
                made = self._converge(logical_id, kind, properties)
            except (ResourceError, CloudFormationError) as error:
                verb = "UPDATE" if logical_id in self.before else "CREATE"
                self.stack.report(logical_id, kind, f"{verb}_FAILED", reason=str(error))
                raise ResourceError(f"The following resource(s) failed to {verb.lower()}: [{logical_id}].") from error
            self.stack.resources[logical_id] = replace(made, settings=settings(definition))
        return _outputs(self.desired, scope)

    def roll_back(self) -> list[str]:
        """Undo what `apply` did, last first. Return the logical IDs that could not be undone."""
        stuck = []
        for made, old in reversed(self._done):
            definition = self._active[made.logical_id]
            if made in self.imported or (old is None and definition.get("DeletionPolicy") in ("Retain", "Snapshot")):
                self.stack.report(made.logical_id, made.type, "DELETE_SKIPPED", made.physical_id)
                self.left.append(made)
                continue
            try:
                if old is None or old in self._replaced:
                    delete(self.aws, self.stack, made, [])
                else:
                    resources.update(self.aws, made, old.properties)
                    self.stack.report(made.logical_id, made.type, "UPDATE_COMPLETE", old.physical_id)
            except ResourceError:
                stuck.append(made.logical_id)
        self.stack.resources = dict(self.before)
        return stuck

    def clean_up(self) -> None:
        """Delete resources that the update replaced or no longer wants, unless they are to be retained."""
        removed = [old for logical_id, old in self.before.items() if logical_id not in self._active]
        for resource in removed:
            del self.stack.resources[resource.logical_id]
        doomed = deletion_order(self.stack.desired, [*self._replaced, *removed])
        for index, resource in enumerate(doomed):
            policy = "UpdateReplacePolicy" if resource in self._replaced else "DeletionPolicy"
            # As in AWS, an update at this point has succeeded. A resource that cannot be deleted is reported and left.
            there = [*self.live(), *doomed[index:]]
            if not delete_unless_kept(self.aws, self.stack, resource, there, policy):
                self.left.append(resource)

    def _converge(self, logical_id: str, kind: str, properties: Properties) -> Resource:
        old = self.before.get(logical_id)
        if old is None:
            return self._create(logical_id, kind, properties, None)
        if old.type != kind:
            raise ResourceError(f"Update of resource type is not permitted: {old.type} to {kind}")
        if old.properties == properties:
            return old
        if load(kind, self.aws.region).replacing(old.properties, properties):
            return self._create(logical_id, kind, properties, old)
        self.stack.report(logical_id, kind, "UPDATE_IN_PROGRESS", old.physical_id)
        made = resources.update(self.aws, old, properties)
        self._done.append((made, old))
        self.stack.report(logical_id, kind, "UPDATE_COMPLETE", made.physical_id)
        return made

    def _create(self, logical_id: str, kind: str, properties: Properties, old: Resource | None) -> Resource:
        if old is None and (there := self._import(logical_id, kind, properties)):
            return there
        identifier = resources.chosen_identifier(load(kind, self.aws.region), properties)
        if identifier and self.taken(kind, identifier):
            name = "|".join(identifier)
            raise ResourceError(
                f"CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {name} and update the stack again."
                if old
                else f"Resource of type '{kind}' with identifier '{name}' already exists."
            )
        verb, reason, before = ("UPDATE", REPLACING, old.physical_id) if old else ("CREATE", None, "")
        self.stack.report(logical_id, kind, f"{verb}_IN_PROGRESS", before, reason)
        made = resources.create(self.aws, self.stack.name, logical_id, kind, properties)
        self._done.append((made, old))
        if old:
            self._replaced.append(old)
        self.stack.report(logical_id, kind, f"{verb}_COMPLETE", made.physical_id)
        return made

    def _import(self, logical_id: str, kind: str, properties: Properties) -> Resource | None:
        """Return an existing resource of the template's name that may be imported, unchanged, or None."""
        definition = self._active[logical_id]
        there = importable(self.aws, self.stack.name, logical_id, definition, properties, self.desired, self.owned)
        if there is None:
            return None
        self.stack.report(logical_id, kind, "IMPORT_IN_PROGRESS", there.physical_id)
        self._done.append((there, None))
        self.imported.append(there)
        self.stack.report(logical_id, kind, "IMPORT_COMPLETE", there.physical_id)
        return there


def importable(
    aws: Aws,
    stack: str,
    logical_id: str,
    definition: dict[str, Any],
    properties: Properties,
    desired: Desired,
    owned: IsThere,
) -> Resource | None:
    """Return the resource that a deployment would import instead of creating it: it exists, and is in no stack.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html (2026-11)
    """
    kind, schema = definition["Type"], load(definition["Type"], aws.region)
    identifier = resources.chosen_identifier(schema, properties)
    retained = definition.get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate")
    if not desired.import_existing or not identifier or not retained or owned(kind, identifier):
        return None
    written_out = all(isinstance(definition["Properties"][name], str) for name in schema.primary_identifier)
    return resources.find(aws, stack, logical_id, kind, properties) if written_out else None


def delete_unless_kept(
    aws: Aws, stack: Stack, resource: Resource, live: Iterable[Resource], policy: str = "DeletionPolicy"
) -> bool:
    """Delete a resource unless its policy retains it. Return whether it is gone. The events report what happened."""
    if resource.settings.get(policy) in KEPT:
        stack.report(resource.logical_id, resource.type, "DELETE_SKIPPED", resource.physical_id)
        return False
    try:
        delete(aws, stack, resource, live)
    except ResourceError:
        return False
    return True


def delete(aws: Aws, stack: Stack, resource: Resource, live: Iterable[Resource]) -> None:
    """Delete a resource and report it. Raises ResourceError, which is also reported, if its service refuses.

    EC2 refuses to delete a resource that one of the `live` resources uses.
    """
    stack.report(resource.logical_id, resource.type, "DELETE_IN_PROGRESS", resource.physical_id)
    try:
        refuse_while_in_use(resource, live)
        resources.delete(aws, resource)
    except ResourceError as error:
        stack.report(resource.logical_id, resource.type, "DELETE_FAILED", resource.physical_id, str(error))
        raise
    stack.report(resource.logical_id, resource.type, "DELETE_COMPLETE", resource.physical_id)


def deletion_order(desired: Desired, doomed: list[Resource]) -> list[Resource]:
    """Return the resources in an order in which each comes before those it depends on in its template."""
    order = {logical_id: index for index, logical_id in enumerate(creation_order(desired.template.resources))}
    return sorted(doomed, key=lambda resource: order[resource.logical_id], reverse=True)


def _outputs(desired: Desired, scope: Scope) -> list[Output]:
    outputs = []
    for key, definition in desired.template.section("Outputs").items():
        if "Condition" in definition and not scope.condition(definition["Condition"]):
            continue
        value = resolve(definition["Value"], scope)
        if value is NO_VALUE:
            raise CloudFormationError(f"Template format error: Output {key} is malformed: its value is AWS::NoValue")
        export = definition.get("Export", {}).get("Name")
        name = as_text(resolve(export, scope)) if export is not None else None
        outputs.append(Output(key, as_text(value), definition.get("Description"), name))
    return outputs
