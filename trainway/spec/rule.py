"""What a rule is, and what several of them look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
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


# The rules about what AWS has published, which AWS may change on any day. `accept` in a platform file turns one off.
PUBLISHED_RULES: dict[str, Rule] = {}


def published_rule(function: Rule) -> Rule:
    """Add a function to the rules, as one that rests on what AWS had published on some day. Return the function."""
    PUBLISHED_RULES[name_of(function)] = function
    return rule(function)


def name_of(function: Rule) -> str:
    """Return the name of a rule, by which people speak of it: `zones-are-named-once`, for example."""
    return function.__name__.replace("_", "-")


def summary_of(function: Rule) -> str:
    """Return what a rule is about: the first paragraph of its docstring, on one line."""
    return " ".join((function.__doc__ or "").partition("\n\n")[0].split())


def image_rule(function: Rule) -> Rule:
    """Add a rule that runs the function once for each image of the platform, and return the rule.

    The function reads and names the image as the section `image`, whatever the image is called.
    """

    @wraps(function)
    def of_each_image(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
        for name in platform.image_names:
            for path, reason, remedy in function(platform.of_image(name), catalogue):
                yield path_of_image(name, path), reason, remedy

    RULES.append(of_each_image)
    return of_each_image


def path_of_image(name: str, path: KeyPath) -> KeyPath:
    """Return where a key of the section `image` is for the image of this name. Another key stays where it is."""
    return path if name == DEFAULT_IMAGE or path[:1] != ("image",) else ("images", name, *path[1:])


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
