"""Combine CloudFormation's change sets with the comparison of templates.

A change set knows what the stack's handlers do, and not what other stacks replace. The comparison follows replaced
resources through all stacks. Where the two differ, the worse of the two is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trainway.diff.change_sets import Answered
from trainway.diff.compare import VOLATILE, Action, PropertyEdit, ResourceDiff, gets_versions
from trainway.diff.create_only import Verdict
from trainway.diff.instance_groups import CLUSTER, GROUPS
from trainway.diff.tokens import Id

RECREATION: Final = {
    "Always": Verdict.REPLACE,
    "Conditionally": Verdict.CONDITIONAL,
    "Never": Verdict.UPDATE,
}


def with_answers(diffs: Sequence[ResourceDiff], answered: Mapping[str, Answered]) -> list[ResourceDiff]:
    """Return the diffs, completed with the changes that only CloudFormation's change sets show."""
    known = {each.id: each for each in diffs}
    changes = {Id(stack, id): each for stack, answer in answered.items() for id, each in answer.changes.items()}
    taken = [_answered(each, changes.get(each.id), known) for each in diffs]
    more = [found for id, each in changes.items() if id not in known and (found := _unforeseen(id, each, known))]
    order = {stack: number for number, stack in enumerate(answered)}
    return sorted([*taken, *more], key=lambda each: order.get(each.id.stack, len(order)))


def _answered(each: ResourceDiff, change: Mapping[str, Any] | None, known: Mapping[Id, ResourceDiff]) -> ResourceDiff:
    if change is None:
        return each
    if change["Action"] == "Import":
        return replace(each, action=Action.IMPORTED)
    if "PolicyAction" in change:
        each = replace(each, kept=change["PolicyAction"].endswith("Retain"))
    # A change set does not evaluate UpdateMethod, so it calls the update a conditional replacement.
    judged = change.get("Replacement") == "Conditional" and gets_versions(each.after)
    if each.action is Action.CHANGED and not judged and _replaces(each.id.stack, change, known):
        return replace(each, action=Action.REPLACED, edits=_edits(change))
    conditional = all(edit.verdict in (Verdict.UPDATE, Verdict.CONDITIONAL) for edit in each.edits)
    if each.action is Action.REPLACED and conditional and change.get("Replacement") == "False":
        return replace(each, action=Action.CHANGED)
    return each


def _unforeseen(id: Id, change: Mapping[str, Any], known: Mapping[Id, ResourceDiff]) -> ResourceDiff | None:
    """Return a change that the templates do not show, for example by another value of a parameter."""
    if change["Action"] != "Modify":
        return None
    replaced = _replaces(id.stack, change, known)
    told = [each for each in change.get("Details", []) if not _is_false_alarm(id.stack, each, known)]
    properties = [
        each for each in told if each["Target"]["Attribute"] == "Properties" and not _is_of_groups(change, each)
    ]
    if not replaced and not properties:
        return None
    action = Action.REPLACED if replaced else Action.CHANGED
    kept = str(change.get("PolicyAction", "")).endswith("Retain")
    return ResourceDiff(id, change["ResourceType"], action, _edits(change), kept=replaced and kept)


def _is_of_groups(change: Mapping[str, Any], detail: Mapping[str, Any]) -> bool:
    """Return whether a detail is about HyperPod's instance groups, which the comparison has one by one."""
    return bool(change["ResourceType"] == CLUSTER and detail["Target"].get("Name") == GROUPS)


def _replaces(stack: str, change: Mapping[str, Any], known: Mapping[Id, ResourceDiff]) -> bool:
    if change.get("Replacement") != "Conditional":
        return bool(change.get("Replacement") == "True")
    return any(
        each["Target"].get("RequiresRecreation") != "Never" and not _is_false_alarm(stack, each, known)
        for each in change.get("Details", [])
    )


def _is_false_alarm(stack: str, detail: Mapping[str, Any], known: Mapping[Id, ResourceDiff]) -> bool:
    """Return whether a value stays although it is an attribute of a resource that changes.

    Before the update, CloudFormation does not know whether an attribute changes. An ID does not if its resource stays.
    """
    if detail.get("Evaluation") != "Dynamic" or "CausingEntity" not in detail:
        return False
    logical_id, _, attribute = detail["CausingEntity"].partition(".")
    cause = known.get(Id(stack, logical_id))
    if cause is None or cause.action is Action.CHANGED:
        return cause is None or (cause.kind, attribute) not in VOLATILE
    return False


def _edits(change: Mapping[str, Any]) -> tuple[PropertyEdit, ...]:
    return tuple(_edits_of(change.get("Details", [])))


def _edits_of(details: Sequence[Mapping[str, Any]]) -> Iterator[PropertyEdit]:
    for detail in details:
        target = detail["Target"]
        if target["Attribute"] == "Properties":
            path = (
                target.get("Path", "").removeprefix("/Properties/").split("/") if "Path" in target else [target["Name"]]
            )
            verdict = RECREATION[target.get("RequiresRecreation", "Never")]
            yield PropertyEdit(tuple(path), verdict, target.get("BeforeValue"), target.get("AfterValue"))
