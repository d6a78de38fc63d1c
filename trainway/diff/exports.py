"""Find removed exports that a deployed stack still imports. CloudFormation refuses to remove them.

A stack that no longer imports such an export can be deployed before the one that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from trainway.diff.report import Refused
from trainway.diff.tokens import StackTemplate

Templates = Mapping[str, StackTemplate]


def deployed_first(deployed: Templates, wanted: Templates) -> tuple[str, ...]:
    """Return the stacks to deploy before all others, because they release exports that leave with this deploy."""
    return tuple(
        name
        for name in wanted
        if name in {user for _, _, user in _held(deployed, wanted)} and _can_be_first(name, deployed, wanted)
    )


def held_exports(deployed: Templates, wanted: Templates) -> list[Refused]:
    """Return the stacks that cannot be deployed, because another one holds an export that leaves."""
    first = deployed_first(deployed, wanted)
    return [
        Refused(
            name=stack,
            kind="stack",
            stack=stack,
            what="cannot be deployed",
            why=f"it has the export {export} no more, and {user} imports it until it is deployed itself",
            fix="deploy the removal alone, and everything else that the file adds afterwards",
            can_be_allowed=False,
        )
        for stack, export, user in _held(deployed, wanted)
        if user not in first
    ]


def _held(deployed: Templates, wanted: Templates) -> Iterator[tuple[str, str, str]]:
    """Yield each stack with an export that leaves, the export, and a deployed stack that imports it."""
    for stack in deployed.keys() & wanted.keys():
        for export in _exports(deployed[stack]) - _exports(wanted[stack]):
            for user, template in deployed.items():
                if user != stack and export in set(_imports(template)):
                    yield stack, export, user


def _can_be_first(name: str, deployed: Templates, wanted: Templates) -> bool:
    """Return whether a stack imports only what is exported already."""
    there = {export for template in deployed.values() for export in _exports(template)}
    leaving = there - {export for template in wanted.values() for export in _exports(template)}
    return not leaving.intersection(_imports(wanted[name])) and there.issuperset(_imports(wanted[name]))


def _exports(template: StackTemplate) -> set[str]:
    named: Collection[Any] = [each.get("Export", {}).get("Name") for each in template.get("Outputs", {}).values()]
    return {name for name in named if isinstance(name, str)}


def _imports(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _imports(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "Fn::ImportValue" and isinstance(item, str):
                yield item
            else:
                yield from _imports(item)
