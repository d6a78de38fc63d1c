"""What a target knows about its nodes and all jobs on them, whoever launched them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainway.launch.target.phase import Phase

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class ClusterNode:
    """A node. None stands for an unknown value.

    `state` is the scheduler's name for the state. `gpus` is the number of GPUs or Neuron devices, and `allocated` is
    the number of those that jobs have. `used` is the mean utilization of the GPUs, from 0 to 1. `idle` is the number of
    allocated GPUs that have not computed for some minutes.
    """

    name: str
    state: str
    group: str | None = None
    gpus: int | None = None
    allocated: int | None = None
    used: float | None = None
    reason: str = ""
    idle: int | None = None


@dataclass(frozen=True)
class ClusterJob:
    """A job that has not ended, as the scheduler describes it. None stands for an unknown value.

    A run of Trainway is this job if its handle has the keys and values of `found_by`. `since` is the time of the job's
    submission, in seconds since the epoch. `metrics` has the newest samples of its exporter, by their names. `used` and
    `idle` are those of its GPUs, as a node has them.
    """

    name: str
    phase: Phase
    found_by: Mapping[str, str]
    owner: str | None = None
    team: str | None = None
    reason: str = ""
    nodes: tuple[str, ...] = ()
    gpus: int | None = None
    since: float | None = None
    metrics: Mapping[str, float] | None = None
    used: float | None = None
    idle: int | None = None


@dataclass(frozen=True)
class ClusterState:
    """The nodes and jobs of a cluster, and sentences about what could not be read."""

    nodes: tuple[ClusterNode, ...] = ()
    jobs: tuple[ClusterJob, ...] = ()
    unknown: tuple[str, ...] = ()


def run_metrics(text: str, run: str) -> dict[str, float] | None:
    """Return the samples of a run in the text of its exporter, by their names, or None for the text of another run.

    https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md (read 2026-11-22)
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        if (sample := _SAMPLE.match(line)) is None:
            continue
        if dict(_LABEL.findall(sample["labels"] or "")).get("run") == run:
            found[sample["name"]] = float(sample["value"])
    return found or None
