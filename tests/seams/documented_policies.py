"""What publishers document that a role of an add-on, a driver, or a node needs, as questions to the evaluator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from tests.seams.evaluator import BY_IAM, Question, role
from tests.seams.policies import identity_policies, managed_policy
from tests.seams.resolved import ACCOUNT, Deployed
from tests.seams.service_reference import action as reference
from tests.seams.service_reference import read

FILE = Path(__file__).with_name("documented_policies.yaml")


class Documented(BaseModel):
    """An entry of documented_policies.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    role: str
    platforms: tuple[str, ...]
    source: str
    managed: str | None = None
    actions: tuple[str, ...] = ()
    resources: Mapping[str, str] = {}
    context: Mapping[str, str | list[str]] = {}
    only_if: Mapping[str, str] = {}
    without: Mapping[str, str] = {}


@cache
def documented() -> tuple[Documented, ...]:
    """Return what is documented."""
    return tuple(Documented.model_validate(each) for each in yaml.safe_load(FILE.read_text(encoding="utf-8")))


def questions(entry: Documented, deployed: Deployed, platform: str) -> Iterator[tuple[bool, Question]]:
    """Yield whether a role of a deployed platform must be allowed, and the question, for all that is documented.

    Raises AssertionError if the platform has no such role, or the entry excepts an action that is not documented.
    """
    roles = [(stack, name) for stack, name in deployed.of_type("AWS::IAM::Role") if name.startswith(entry.role)]
    assert roles, f"{platform} has no role {entry.role}"
    needed = dict.fromkeys(_needed(entry, deployed))
    assert set(entry.without) <= {action for action, _ in needed}, entry.what
    condition = {key.format(platform=platform): value.format(platform=platform) for key, value in entry.only_if.items()}
    for stack, name in roles:
        policies = identity_policies(deployed, stack, name)
        for action, resource in needed:
            key_policy = BY_IAM if action.startswith("kms:") else None
            ask = partial(Question, role(name), action, resource, policies, key_policy)
            yield action not in entry.without, ask(context={**entry.context, **condition})
            if condition:
                yield False, ask(context=entry.context)


def _needed(entry: Documented, deployed: Deployed) -> Iterator[tuple[str, str]]:
    at = f"{deployed.region}:{ACCOUNT}"
    for action, pattern in _statements(entry):
        if action in entry.resources:
            yield action, entry.resources[action].format(at=at)
        elif pattern == "*":
            yield from ((action, resource) for resource in _resources(action, deployed))
        else:
            own = re.compile(re.escape(pattern).replace(r"\*", ".*"))
            sample = re.sub(r"^(arn:aws:\w+):\*:\*:", rf"\1:{at}:", pattern).replace("*", "a")
            yield action, next((arn for arn in deployed.arns if own.fullmatch(arn)), sample)


def _statements(entry: Documented) -> Iterator[tuple[str, str]]:
    """Yield each documented action with its resource, in which wildcards stand for anything."""
    yield from ((action, "*") for action in entry.actions)
    for statement in managed_policy(entry.managed)["Statement"] if entry.managed else ():
        for action in _listed(statement["Action"]):
            yield from ((action, resource) for resource in _listed(statement["Resource"]))


def _resources(action: str, deployed: Deployed) -> Iterator[str]:
    """Yield a resource of each type that the action has: the platform's own if there is one; `*` if it has no type."""
    kinds = [kind["name"] for kind in reference(action)["resourceTypes"]]
    if not kinds:
        yield "*"
    for kind in kinds:
        form = read("resourceTypes", action.partition(":")[0])[kind]["arn"]
        own = re.compile(re.sub(r"\\\$\\\{\w+\\\}", "[^:/]+", re.escape(form)))
        sample = form.replace("${Partition}", "aws").replace("${Region}", deployed.region)
        sample = re.sub(r"\$\{\w+\}", "a", sample.replace("${Account}", ACCOUNT))
        yield next((arn for arn in deployed.arns if own.fullmatch(arn)), sample)


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
