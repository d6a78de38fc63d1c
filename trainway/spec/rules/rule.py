"""What a rule is, and what several of them look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath

Breach = tuple[KeyPath, str, str]
Rule = Callable[[Platform, Catalogue], Iterator[Breach]]

# Every rule of a platform file. `SpecError` sorts what they yield by its position in the file.
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Add a function to the rules that every platform file is checked against, and return the function."""
    RULES.append(function)
    return function


def instance_types(platform: Platform) -> Iterator[tuple[KeyPath, str]]:
    """Every instance type that the file names, and the key that names it."""
    for index, group in enumerate(platform.node_groups):
        yield ("node_groups", index, "instance_type"), group.instance_type
        for number, name in enumerate(group.or_types):
            yield ("node_groups", index, "or_types", number), name
    if platform.kubernetes:
        yield ("kubernetes", "system_nodes", "instance_type"), platform.kubernetes.system_nodes.instance_type
    if platform.slurm:
        yield ("slurm", "controller", "instance_type"), platform.slurm.controller.instance_type
        if platform.slurm.login:
            yield ("slurm", "login", "instance_type"), platform.slurm.login.instance_type
