"""Render a diff as a document for `--json`, and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from trainway.diff.compare import Action
from trainway.diff.deliveries import WAITS
from trainway.diff.names import KINDS

SCHEMA_VERSION: Final = 1
# The worst first.
ORDER: Final = (Action.DELETED, Action.REPLACED, Action.CHANGED, Action.CREATED, Action.IMPORTED)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DiffedProperty(_Part):
    """A property that changes, and whether that replaces the resource."""

    path: str = Field(description="Path below the resource's properties, with dots.")
    verdict: Literal["in place", "conditional", "unknown", "replace"]
    before: str = Field("", description="The value before as JSON, shortened. Empty for a value that is new.")
    after: str = Field("", description="The value after as JSON, shortened. Empty for a value that is removed.")
    follows: str = Field("", description="Name of the resource whose replacement or change this one follows.")


class DiffedResource(_Part):
    """What a deploy does to one resource."""

    name: str = Field(description="Name, as `--allow-replace` takes it.")
    kind: str = Field(description="What the resource is, for example `node group`.")
    type: str = Field(description="CloudFormation's resource type.")
    logical_id: str
    action: Literal["created", "imported", "changed in place", "replaced", "deleted"]
    properties: tuple[DiffedProperty, ...] = ()
    cost: str = Field("", description="Nodes or data that the change costs, in words.")
    minutes: int = Field(0, description="What the change takes at least, as far as that is known.")
    by_extension: Literal["", "added", "changed", "removed"] = Field(
        "", description="What the platform's `extend` does to it."
    )


class DiffedStack(_Part):
    """What a deploy does to one stack. `change_set` is empty, or says why CloudFormation made none."""

    name: str
    is_new: bool
    resources: tuple[DiffedResource, ...]
    delivery: tuple[str, ...] = Field((), description="What the stages of the stack's pipeline do, in words.")
    change_set: str = ""


class Refused(_Part):
    """A change that a deploy may not make unless it is named, or cannot make at all."""

    name: str
    kind: str
    stack: str
    what: str
    key: str = Field("", description="Key of the platform file that it follows from. Empty if no single key is.")
    file: str = ""
    line: int | None = None
    edit: str = Field("", description="What was done to the key.")
    why: str
    fix: str
    can_be_allowed: bool = True


class DiffReport(_Part):
    """Everything that a deploy of a platform file would do."""

    schema_version: Literal[1] = SCHEMA_VERSION
    platform: str
    region: str
    account: str
    stacks: tuple[DiffedStack, ...]
    left_alone: tuple[str, ...] = Field((), description="Deployed stacks of the platform that the file has no more.")
    refused: tuple[Refused, ...] = ()
    first: tuple[str, ...] = Field(
        (), description="Stacks to deploy before the others, because they release exports that leave."
    )
    notices: tuple[str, ...] = Field((), description="What people and running jobs notice of the deploy.")
    steps: tuple[str, ...] = Field(
        (), description="What people do before and after the deploy, where it changes who reaches what."
    )
    minutes: int = Field(0, description="What the deploy takes at least, as far as that is known.")


def text_of(report: DiffReport) -> str:
    """Return the report in words, with one block per stack that changes."""
    return "\n".join(_lines(report))


def _lines(report: DiffReport) -> Iterator[str]:
    yield f"{report.platform} in {report.region}, account {report.account}"
    for stack in report.stacks:
        if stack.resources:
            yield ""
            yield f"{stack.name}{': a new stack' if stack.is_new else ''}"
            yield from _of_stack(stack)
    if unchanged := [stack.name for stack in report.stacks if not stack.resources]:
        yield f"\nno changes: {', '.join(unchanged)}"
    for name in report.left_alone:
        yield f"\n{name} is deployed and not in the file. A deploy leaves it: `cdk destroy {name}` deletes it."
    for name in report.first:
        yield f"\n{name} is deployed first: it releases an export that leaves."
    yield ""
    yield _summary(report)
    for notice in report.notices:
        yield f"note: {notice}."
    for number, step in enumerate(report.steps, 1):
        yield f"step {number}: {step}."
    for refusal in report.refused:
        yield ""
        yield from _of_refusal(refusal)


def _of_stack(stack: DiffedStack) -> Iterator[str]:
    if stack.change_set:
        yield f"  CloudFormation made no change set: {stack.change_set}"
    for words in stack.delivery:
        yield f"  {'pipeline':16}  {words}"
    told = [each for each in stack.resources if _is_told(each, stack)]
    for each in sorted(told, key=lambda each: ORDER.index(Action(each.action))):
        yield f"  {each.action:16}  {each.kind} {each.name}"
        for line in _reasons(each):
            yield f"{' ' * 20}{line}"
        if each.by_extension:
            yield f"{' ' * 20}{each.by_extension} by your extension"
        if each.cost:
            yield f"{' ' * 20}cost: {each.cost}"
    rest: Counter[tuple[str, str]] = Counter(
        (each.action, each.type) for each in _shown(stack) if not _is_told(each, stack)
    )
    for action in ORDER:
        kinds = [
            f"{count} × {kind.removeprefix('AWS::')}" for (done, kind), count in sorted(rest.items()) if done == action
        ]
        if kinds:
            yield f"  {action.value:16}  {', '.join(kinds)}"


def _shown(stack: DiffedStack) -> list[DiffedResource]:
    """Return the resources of a stack but those that only wait for its pipeline, of which `delivery` tells."""
    return [each for each in stack.resources if each.type not in WAITS]


def _is_told(each: DiffedResource, stack: DiffedStack) -> bool:
    """Return whether a resource has a line of its own: one that is replaced, costs something, or is known by name."""
    if each.cost or each.by_extension or each.action == "replaced":
        return True
    return each.type in KINDS and not (stack.is_new and each.action == "created" and each.kind != "node group")


def _reasons(each: DiffedResource) -> Iterator[str]:
    replacing = [edit for edit in each.properties if edit.verdict != "in place"]
    for edit in (replacing or each.properties)[:4]:
        if edit.follows:
            yield f"{edit.path} follows {edit.follows}"
        else:
            doubt = {"unknown": ", which may replace it", "conditional": ", which can replace it"}.get(edit.verdict, "")
            yield f"{edit.path}: {edit.before or 'none'} → {edit.after or 'none'}{doubt}"
    if len(replacing or each.properties) > 4:
        yield f"and {len(replacing or each.properties) - 4} more properties"


def _summary(report: DiffReport) -> str:
    counts: Counter[str] = Counter(each.action for stack in report.stacks for each in _shown(stack))
    if not counts:
        return "Nothing changes."
    told = ", ".join(f"{counts[action.value]} {action.value}" for action in ORDER if counts[action.value])
    minutes = f" The deploy takes about {report.minutes} min or more." if report.minutes else ""
    return f"{told[:1].upper()}{told[1:]}.{minutes}"


def _of_refusal(refusal: Refused) -> Iterator[str]:
    yield f"refused: {refusal.kind} {refusal.name} {refusal.what}"
    if refusal.key:
        where = f"{refusal.file}:{refusal.line}: " if refusal.line else ""
        yield f"    where: {where}{refusal.key}, {refusal.edit}"
    yield f"    why: {refusal.why}"
    allow = f". To do it all the same: --allow-replace {refusal.name}" if refusal.can_be_allowed else ""
    yield f"    fix: {refusal.fix}{allow}"
