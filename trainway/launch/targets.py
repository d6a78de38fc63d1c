"""The targets by their names."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from trainway.launch.target import Target
from trainway.spec.errors import usage_error

_WATCHED_BY = {
    "local": "trainway.launch.watch_local",
    "slurm": "trainway.launch.slurm",
    "kubernetes": "trainway.launch.kubernetes",
    "sagemaker": "trainway.launch.sagemaker",
}


def target_named(name: str) -> Target:
    """The watching half of a target. Raises UsageError for one that this version does not have."""
    if name not in _WATCHED_BY:
        raise usage_error(
            f"a run on {name} cannot be watched",
            why=f"this version knows {', '.join(_WATCHED_BY)}",
            fix="use the version that launched it",
        )
    return cast(Target, import_module(_WATCHED_BY[name]))
