"""Compare the templates of the deployed stacks with those of the platform file, resource by resource.

A change set sees one stack and the present values of the others. This comparison follows a resource that is replaced
into every stack that refers to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from trainway.diff.create_only import Verdict, verdict_on
from trainway.diff.instance_groups import KIND, verdict_on_group, with_instance_groups
from trainway.diff.tokens import Id, StackTemplate, references, resolved_templates

# Attributes that change although their resource stays. Others, for example an ARN, belong to its identity.
VOLATILE: Final = {
    ("AWS::EC2::LaunchTemplate", "LatestVersionNumber"),
    ("AWS::EC2::LaunchTemplate", "DefaultVersionNumber"),
    ("AWS::SSM::Parameter", "Value"),
}
# What a template says of a resource beside its properties, and a change of which a deploy does something with.
POLICIES: Final = ("DeletionPolicy", "UpdateReplacePolicy")


class Action(StrEnum):
    """What a deploy does to a resource."""

    CREATED = "created"
    IMPORTED = "imported"
    CHANGED = "changed in place"
    REPLACED = "replaced"
    DELETED = "deleted"


@dataclass(frozen=True)
class PropertyEdit:
    """A property whose value changes, with the verdict on it. `follows` is a resource whose change it follows."""

    path: tuple[str, ...]
    verdict: Verdict
    before: Any = None
    after: Any = None
    follows: Id | None = None

    @property
    def dotted(self) -> str:
        """The path below the resource's properties, for example `ScalingConfig.MaxSize`."""
        return ".".join(self.path)


@dataclass(frozen=True)
class ResourceDiff:
    """What a deploy does to one resource. `before` and `after` are its definitions, with tokens for references.

    `kept` says that the resource stays when its stack no longer wants it, or wants another in its place. `running` is
    how many nodes a node group has now; None if nobody asked, or AWS does not tell.
    """

    id: Id
    kind: str
    action: Action
    edits: tuple[PropertyEdit, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    kept: bool = False
    running: int | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the platform no longer has the deployed resource after the deploy."""
        return self.action in (Action.REPLACED, Action.DELETED)


def compare(deployed: Mapping[str, StackTemplate], wanted: Mapping[str, StackTemplate]) -> list[ResourceDiff]:
    """Return the effect of a deploy on each changed resource, in the order of the wanted stacks and their resources.

    Both are templates by the name of the stack. A deploy leaves stacks that are deployed and not wanted.
    """
    old = with_instance_groups(resolved_templates(deployed))
    new = with_instance_groups(resolved_templates(wanted))
    old_of_wanted = {id: resource for id, resource in old.items() if id.stack in wanted}
    edits = _settled_edits(old_of_wanted, new)
    found = [_diff_of(id, old_of_wanted.get(id), resource, edits.get(id, ())) for id, resource in new.items()]
    gone = [
        ResourceDiff(id, was["Type"], Action.DELETED, before=was, kept=_is_kept(was, "DeletionPolicy"))
        for id, was in old_of_wanted.items()
        if id not in new
    ]
    order = {stack: number for number, stack in enumerate(wanted)}
    return sorted([each for each in found if each] + gone, key=lambda each: order[each.id.stack])


def _diff_of(
    id: Id, was: Mapping[str, Any] | None, wanted: Mapping[str, Any], edits: tuple[PropertyEdit, ...]
) -> ResourceDiff | None:
    kind = wanted["Type"]
    if was is None:
        return ResourceDiff(id, kind, Action.CREATED, after=wanted)
    if not edits:
        return None
    replaced = any(edit.verdict is not Verdict.UPDATE for edit in edits)
    kept = replaced and _is_kept(was, "UpdateReplacePolicy")
    return ResourceDiff(id, kind, Action.REPLACED if replaced else Action.CHANGED, edits, was, wanted, kept)


def _settled_edits(
    old: Mapping[Id, Mapping[str, Any]], new: Mapping[Id, Mapping[str, Any]]
) -> dict[Id, tuple[PropertyEdit, ...]]:
    """Return the edits of each resource that stays, after following replaced ones to all who refer to them."""
    moved: set[tuple[Id, str | None]] = set()
    while True:
        edits = {id: tuple(_edits(old[id], wanted, moved)) for id, wanted in new.items() if id in old}
        now = set(_moved(edits, new))
        if now == moved:
            return edits
        moved = now


def _moved(
    edits: Mapping[Id, tuple[PropertyEdit, ...]], new: Mapping[Id, Mapping[str, Any]]
) -> Iterator[tuple[Id, str | None]]:
    """Yield the attributes that have another value afterwards; None stands for all of a resource."""
    for id, each in edits.items():
        if any(edit.verdict is not Verdict.UPDATE for edit in each):
            yield id, None
        elif each:
            yield from ((id, name) for kind, name in VOLATILE if kind == new[id]["Type"])


def _edits(
    was: Mapping[str, Any], wanted: Mapping[str, Any], moved: set[tuple[Id, str | None]]
) -> Iterator[PropertyEdit]:
    kind = wanted["Type"]
    if was["Type"] != kind:
        yield PropertyEdit(("Type",), Verdict.REPLACE, was["Type"], kind)
        return
    for path, before, after in _differences(was["Properties"], wanted["Properties"], moved, ()):
        follows = next((id for id, name in references(after) if before == after and _has_moved(id, name, moved)), None)
        yield PropertyEdit(path, _verdict(wanted, path), before, after, follows)
    for policy in POLICIES:
        if was.get(policy) != wanted.get(policy):
            yield PropertyEdit((policy,), Verdict.UPDATE, was.get(policy), wanted.get(policy))


def _verdict(wanted: Mapping[str, Any], path: tuple[str, ...]) -> Verdict:
    kind = wanted["Type"]
    if kind == KIND:
        return verdict_on_group(path[0])
    verdict = verdict_on(kind, path)
    return Verdict.UPDATE if verdict is Verdict.CONDITIONAL and gets_versions(wanted) else verdict


def gets_versions(resource: Mapping[str, Any]) -> bool:
    """Return whether CloudFormation updates a resource by a new version instead of a replacement.

    An SSM document with `UpdateMethod: NewVersion` is such a resource.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ssm-document.html#cfn-ssm-document-updatemethod
    """
    is_document: bool = resource["Type"] == "AWS::SSM::Document"
    return is_document and bool(resource["Properties"].get("UpdateMethod") == "NewVersion")


def _differences(
    before: Any, after: Any, moved: set[tuple[Id, str | None]], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if before == after:
        if any(_has_moved(id, name, moved) for id, name in references(after)):
            yield from _followed(after, moved, path)
        return
    if _is_plain(before) and _is_plain(after):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), moved, (*path, key))
    else:
        yield path, before, after


def _followed(
    value: Any, moved: set[tuple[Id, str | None]], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the innermost named properties that refer to what moved."""
    if _is_plain(value):
        for key, item in value.items():
            yield from _differences(item, item, moved, (*path, key))
    else:
        yield path, value, value


def _is_plain(value: Any) -> bool:
    """Return whether a value is a structure of named properties, and no function of a template."""
    return isinstance(value, dict) and not any(key.startswith(("Fn::", "$", "Ref")) for key in value)


def _has_moved(id: Id, attribute: str, moved: set[tuple[Id, str | None]]) -> bool:
    return (id, None) in moved or (id, attribute) in moved


def _is_kept(resource: Mapping[str, Any], policy: str) -> bool:
    return str(resource.get(policy, "Delete")).startswith("Retain")
