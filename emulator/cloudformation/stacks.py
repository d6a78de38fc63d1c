"""The state of the emulated CloudFormation: stacks, their events, and their change sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from emulator.cloudformation.causes import EDIT, Cause
from emulator.cloudformation.resources import Resource
from emulator.templates.template import EMPTY, Template


def now() -> datetime:
    """Return the current time, with a time zone."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Event:
    """One line of a stack's history."""

    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None
    time: datetime


@dataclass(frozen=True)
class Output:
    """A resolved output. `export` is its name for other stacks."""

    key: str
    value: str
    description: str | None = None
    export: str | None = None


@dataclass(frozen=True)
class Desired:
    """The target state of a stack: a template, and the values that its names refer to."""

    template: Template
    parameters: dict[str, Any] = field(default_factory=dict)
    given_parameters: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    import_existing: bool = False


@dataclass(frozen=True)
class PropertyChange:
    """A property, or without a name another part, of a resource that an update changes."""

    attribute: str
    name: str | None
    recreation: str
    before: Any = None
    after: Any = None
    path: tuple[str, ...] = ()
    cause: Cause = EDIT


@dataclass(frozen=True)
class Change:
    """A resource's change in a change set. `replacement` is "True", "False", or "Conditional".

    `action` is Add, Modify, Remove, or Import. Import is for existing resources that join the stack. `policy_action` is
    what happens to a resource that is removed or replaced. `before` and `after` are the resource in the two templates,
    resolved.
    """

    action: str
    logical_id: str
    type: str
    physical_id: str | None = None
    replacement: str | None = None
    details: tuple[PropertyChange, ...] = ()
    policy_action: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


@dataclass
class ChangeSet:
    """A requested change with its preview. It can be executed if it is valid."""

    name: str
    id: str
    type: str
    desired: Desired
    description: str | None
    changes: list[Change]
    problems: list[tuple[str, str, str, str]]
    status: str = "CREATE_COMPLETE"
    reason: str | None = None
    execution_status: str = "AVAILABLE"
    created: datetime = field(default_factory=now)


@dataclass
class Stack:
    """A stack and its history. `resources` holds the existing resources by logical ID."""

    name: str
    id: str
    desired: Desired = field(default_factory=lambda: Desired(EMPTY))
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    change_sets: list[ChangeSet] = field(default_factory=list)
    status: str = "REVIEW_IN_PROGRESS"
    reason: str | None = None
    termination_protection: bool = False
    created: datetime = field(default_factory=now)
    updated: datetime | None = None
    deleted: datetime | None = None

    def enter(self, status: str, reason: str | None = None) -> None:
        """Put the stack into a new state."""
        self.status, self.reason = status, reason
        self.report(self.name, "AWS::CloudFormation::Stack", status, self.id, reason)

    def report(self, logical_id: str, kind: str, status: str, physical_id: str = "", reason: str | None = None) -> None:
        """Report a new state of one of the stack's resources."""
        # Clients sort events by time, in milliseconds, so no two events may have the same time.
        earliest = self.events[-1].time + timedelta(milliseconds=1) if self.events else now()
        self.events.append(Event(logical_id, physical_id, kind, status, reason, max(now(), earliest)))

    @property
    def exports(self) -> dict[str, str]:
        """Return the values of the exports, by export name."""
        return {output.export: output.value for output in self.outputs if output.export}
