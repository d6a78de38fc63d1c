"""The targets by their names: those of this package, and those that other packages register.

Another package registers a target as an entry point of the group `trainway.targets`. The built-in ones are in a table
instead, so that a checkout that was not installed has them, and an installation of an earlier version has the new ones.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from trainway.launch.target.protocol import Target
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

GROUP = "trainway.targets"
# A platform's own target comes before SageMaker, which takes the jobs of every platform.
_BUILT_IN = {
    "local": "trainway.launch.local",
    "slurm": "trainway.launch.slurm",
    "kubernetes": "trainway.launch.kubernetes",
    "sagemaker": "trainway.launch.sagemaker",
}

AnyTarget = Target[Any, Any]


def target_names() -> tuple[str, ...]:
    """Return the names of all targets, the built-in ones first. No target is imported."""
    return (*_BUILT_IN, *_registered())


def target_named(name: str, *, cannot: str = "watched") -> AnyTarget:
    """Return a target by its name.

    `cannot` is the participle of what the caller wants to do with a run, such as "watched" or "stopped". The error
    says that a run cannot be watched, or stopped.

    Raises UsageError for a target that this version does not have, and for one that cannot be imported.
    """
    if name in _BUILT_IN:
        target: AnyTarget = import_module(_BUILT_IN[name]).TARGET
        return target
    what = f"a run on {name} cannot be {cannot}"
    if (found := _registered().get(name)) is None:
        why = f"this version knows {', '.join(target_names())}"
        raise usage_error(what, why=why, fix="use the version that launched it")
    try:
        loaded = found.load()
    except Exception as error:
        why = f"{found.value} cannot be imported: {error!r}"
        raise usage_error(what, why=why, fix="install a version of that package that works here") from error
    if not isinstance(loaded, Target):
        why = f"{found.value} is a {type(loaded).__name__}, and no Target"
        raise usage_error(
            what, why=why, fix=f"name a trainway.launch.target.protocol.Target in the entry point of {GROUP}"
        )
    if loaded.name != name:
        # A run's record has the target's name, by which the target is found again.
        why = f"{found.value} has the name {loaded.name}"
        raise usage_error(what, why=why, fix=f"name the entry point of {GROUP} as the target")
    return loaded


def handle_problem(name: str, handle: Mapping[str, str], run: str) -> str | None:
    """Return why a handle is not one of the target for a run, or None. Every handle of an unknown target is accepted.

    Each function of a target passes values of a handle to programs.
    """
    try:
        target = target_named(name)
    except UsageError:
        return None
    if not target.orchestrators:
        return f"{name} runs no jobs on a platform"
    if handle.keys() != target.handle.keys():
        return f"{name} has the keys {', '.join(target.handle)}"
    for key, pattern in target.handle.items():
        found = re.fullmatch(pattern, handle[key], re.ASCII)
        if found is None:
            return f"{name} gives no such {key}"
        # A pattern can match in two ways: `nightly-start-2` is the second job of `nightly`, or a run of that name.
        if "run" in found.groupdict() and not re.fullmatch(
            rf"(?:{pattern})\n(?P=run)", f"{handle[key]}\n{run}", re.ASCII
        ):
            return f"its {key} is of another run"
    return None


def all_targets() -> list[AnyTarget]:
    """Return the targets that can be imported; print a warning to standard error for each other one."""
    found = []
    for name in target_names():
        try:
            found.append(target_named(name, cannot="launched"))
        except Exception as error:
            if name in _BUILT_IN:
                raise
            print(f"warning: {error}", file=sys.stderr)
    return found


def own_target(platform: Platform) -> AnyTarget:
    """Return the target that submits to the platform's own cluster."""
    return target_of(platform.orchestrator)


def target_of(orchestrator: Orchestrator) -> AnyTarget:
    """Return the target that submits to the cluster of a platform with this orchestrator."""
    built_in = (target_named(name) for name in _BUILT_IN)
    return next(each for each in built_in if orchestrator in each.orchestrators)


# A launch asks three times, and each answer reads the metadata of every installed package.
@cache
def _registered() -> Mapping[str, EntryPoint]:
    """Return the entry points of other packages. A built-in target cannot be replaced."""
    return {each.name: each for each in entry_points(group=GROUP) if each.name not in _BUILT_IN}
