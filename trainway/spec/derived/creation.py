"""What a first deploy makes, in which order it must, and how long that takes at least.

A step is after what it cannot be made without, and after nothing else; the stacks keep to that on the longest way
through, which a test reads out of their templates.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from trainway.spec.derived.charts import chart_names
from trainway.spec.derived.health_checks import deep_health_checks
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source
from trainway.spec.platform import Platform

NETWORK, BUCKET, REPOSITORIES = "network", "bucket", "repositories"
FILE_SYSTEM = "file system"
CONTROL_PLANE = "control plane"
NETWORKING_ADDONS, SYSTEM_NODES, CLUSTER_ADDONS = "networking add-ons", "system nodes", "cluster add-ons"
MIRROR, IMAGE, SCRIPTS, CHARTS = "mirror", "training image", "scripts", "charts"
IMAGE_ON_BASE, TRANSFORMER_ENGINE, ROOT_SQUASH = "training image on its base", "Transformer Engine", "root squash"
NODES = "nodes"
HYPERPOD, HYPERPOD_ADDONS = "HyperPod cluster", "HyperPod add-ons"
AUTOSCALING, DEEP_HEALTH_CHECKS = "autoscaling", "deep health checks"


class Duration(BaseModel):
    """How long a step takes, in minutes: what AWS says, or an allowance where no page has a figure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minutes: int = Field(ge=1)
    sources: tuple[Source, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class CreationStep:
    """Something that is made, and the names of what it cannot be made without."""

    name: str
    after: tuple[str, ...]
    minutes: int
    published: bool


@functools.cache
def durations() -> Mapping[str, Duration]:
    """Every step's duration, from creation.yaml."""
    return TypeAdapter(dict[str, Duration]).validate_python(read_facts(FACTS / "creation.yaml"))


def creation_steps(platform: Platform, catalogue: Catalogue) -> tuple[CreationStep, ...]:
    """The steps of a first deploy, each after those that it is after, until jobs can run."""
    known = durations()
    return tuple(
        CreationStep(name, after, known[name].minutes, bool(known[name].sources))
        for name, after in _order(platform, catalogue)
    )


def critical_path(steps: Sequence[CreationStep]) -> tuple[CreationStep, ...]:
    """The chain of steps that takes longest, the first one first; `steps` are in an order that they can be made in."""
    by_name, ways = {step.name: step for step in steps}, dict[str, tuple[CreationStep, ...]]()
    for step in steps:
        before = max((ways[name] for name in step.after if name in by_name), key=minutes, default=())
        ways[step.name] = (*before, step)
    return max(ways.values(), key=minutes, default=())


def minutes(steps: Sequence[CreationStep]) -> int:
    """What the steps take, one after the other."""
    return sum(step.minutes for step in steps)


def _order(platform: Platform, catalogue: Catalogue) -> Iterator[tuple[str, tuple[str, ...]]]:
    hyperpod, kubernetes = platform.orchestrator.is_hyperpod, platform.orchestrator.is_kubernetes
    # A build runs inside a closed network, and reaches AWS by its endpoints.
    inside = (NETWORK,) if platform.network.is_closed else ()
    yield NETWORK, ()
    yield BUCKET, ()
    yield REPOSITORIES, ()
    if platform.storage.lustre.existing is None or platform.storage.home:
        yield FILE_SYSTEM, (NETWORK, BUCKET)
    yield IMAGE, (REPOSITORIES, BUCKET, *inside)
    copies = (MIRROR,) if chart_names(platform, catalogue) else ()
    if copies:
        yield MIRROR, (REPOSITORIES, BUCKET, *inside)
    if kubernetes:
        yield CONTROL_PLANE, (NETWORK,)
        yield NETWORKING_ADDONS, (CONTROL_PLANE,)
        yield SYSTEM_NODES, (NETWORKING_ADDONS,)
        yield CLUSTER_ADDONS, (SYSTEM_NODES,)
        # A chart's pods run on system nodes and find others by name; the volumes name the file system.
        yield CHARTS, (*copies, CLUSTER_ADDONS, FILE_SYSTEM)
    if not hyperpod:
        yield NODES, (NETWORKING_ADDONS,)
        return
    yield SCRIPTS, (BUCKET, *inside, *(() if kubernetes else (FILE_SYSTEM,)))
    # HyperPod refuses an EKS cluster without its chart; under Slurm its nodes mount the file system.
    yield HYPERPOD, (NETWORK, SCRIPTS, *((CHARTS,) if kubernetes else (FILE_SYSTEM,)))
    settings = platform.hyperpod_or_default
    if platform.task_governance or settings.observability:
        yield HYPERPOD_ADDONS, (HYPERPOD,)
    if kubernetes and settings.autoscaling:
        yield AUTOSCALING, (HYPERPOD,)
    if any(
        deep_health_checks(group, catalogue[group.instance_type], settings, kubernetes=kubernetes)
        for group in platform.node_groups
    ):
        yield DEEP_HEALTH_CHECKS, (HYPERPOD,)
