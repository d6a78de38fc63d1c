"""The resources that a first deploy creates, their order, and the minimum time that it takes.

A step depends only on what it cannot be created without. A test reads the dependencies of the longest path from the
stacks' templates.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.facts.instance import Source
from trainway.spec.facts.versions import versions_facts
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.hyperpod.health_checks import deep_health_checks
from trainway.spec.image.image_build import bases_of_earlier_images, has_additions
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform

NETWORK, BUCKET, REPOSITORIES = "network", "bucket", "repositories"
FILE_SYSTEM = "file system"
CONTROL_PLANE, NEXT_VERSION = "control plane", "control plane's next version"
NETWORKING_ADDONS, SYSTEM_NODES, CLUSTER_ADDONS = "networking add-ons", "system nodes", "cluster add-ons"
MIRROR, IMAGE, SCRIPTS, CHARTS = "mirror", "training image", "scripts", "charts"
IMAGE_ON_BASE, TRANSFORMER_ENGINE, ROOT_SQUASH = "training image on its base", "Transformer Engine", "root squash"
IMAGE_ADDITIONS = "additions to the training image"
NODES = "nodes"
HYPERPOD, HYPERPOD_ADDONS = "HyperPod cluster", "HyperPod add-ons"
AUTOSCALING, DEEP_HEALTH_CHECKS = "autoscaling", "deep health checks"


class Duration(BaseModel):
    """The duration of a step in minutes: AWS's figure, or an allowance if no page has a figure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minutes: int = Field(ge=1)
    waits: int = Field(default=0, ge=0)
    """The longest time that the scripts of this step themselves wait for something, or let others compute."""
    sources: tuple[Source, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class CreationStep:
    """A creation step, and the names of the steps that it depends on."""

    name: str
    after: tuple[str, ...]
    minutes: int
    published: bool


@functools.cache
def durations() -> Mapping[str, Duration]:
    """Return every step's duration, from creation.yaml."""
    return TypeAdapter(dict[str, Duration]).validate_python(read_facts(FACTS / "creation.yaml"))


def creation_steps(platform: Platform, catalogue: Catalogue) -> tuple[CreationStep, ...]:
    """Return the steps of a first deploy until jobs can run, each after the steps that it depends on."""
    known = durations()
    takes = {name: duration.minutes for name, duration in known.items()} | {IMAGE: minutes_of_base(platform)}
    return (
        *(
            CreationStep(name, after, takes[name], bool(known[name].sources))
            for name, after in _order(platform, catalogue)
        ),
        *_further_images(platform, catalogue),
    )


def critical_path(steps: Sequence[CreationStep]) -> tuple[CreationStep, ...]:
    """Return the chain of steps that takes longest, in order. `steps` are in an order in which they can be created."""
    by_name, ways = {step.name: step for step in steps}, dict[str, tuple[CreationStep, ...]]()
    for step in steps:
        before = max((ways[name] for name in step.after if name in by_name), key=minutes, default=())
        ways[step.name] = (*before, step)
    return max(ways.values(), key=minutes, default=())


def minutes(steps: Sequence[CreationStep]) -> int:
    """Return the sum of the steps' minutes."""
    return sum(step.minutes for step in steps)


def minutes_of_base(image: Platform) -> int:
    """Return how long the build of an image from nothing takes, without what a user adds. `image` is its view."""
    with_engine = "transformer-engine" in image.image.add
    return durations()[IMAGE].minutes + (durations()[TRANSFORMER_ENGINE].minutes if with_engine else 0)


def step_of_image(image: str) -> str:
    """Return the name of the step that builds an image."""
    return IMAGE if image == DEFAULT_IMAGE else f"image {image}"


def _further_images(platform: Platform, catalogue: Catalogue) -> Iterator[CreationStep]:
    """Yield a step for each of `images` that is built. One on the base of an earlier image waits for that image."""
    if not platform.images:
        return
    known, on_base = durations(), bases_of_earlier_images(platform, catalogue, versions_facts())
    inside = (NETWORK,) if platform.network.is_closed else ()
    for image in platform.images:
        view, earlier = platform.of_image(image), on_base.get(image)
        if view.image.uri is None:
            took = known[IMAGE_ON_BASE].minutes if earlier else minutes_of_base(view)
            took += known[IMAGE_ADDITIONS].minutes if has_additions(view) else 0
            after = (step_of_image(earlier),) if earlier else (REPOSITORIES, BUCKET, *inside)
            yield CreationStep(step_of_image(image), after, took, published=False)


def _order(platform: Platform, catalogue: Catalogue) -> Iterator[tuple[str, tuple[str, ...]]]:
    hyperpod, kubernetes = platform.orchestrator.is_hyperpod, platform.orchestrator.is_kubernetes
    # In a closed network, a build runs inside the VPC and reaches AWS through its endpoints.
    inside = (NETWORK,) if platform.network.is_closed else ()
    yield NETWORK, ()
    yield BUCKET, ()
    yield REPOSITORIES, ()
    lustre = platform.storage.lustre
    if (lustre and lustre.existing is None) or platform.storage.home:
        yield FILE_SYSTEM, (NETWORK, *((BUCKET,) if lustre and lustre.mirror else ()))
    # What uses the file system waits until its stack is there, whose pipeline squashes root.
    is_squashed = lustre is not None and lustre.existing is None and lustre.root_squash is not None
    files = ROOT_SQUASH if is_squashed else FILE_SYSTEM
    if is_squashed:
        yield ROOT_SQUASH, (FILE_SYSTEM, BUCKET)
    if platform.image.uri is None:
        yield IMAGE, (REPOSITORIES, BUCKET, *inside)
        if has_additions(platform):
            yield IMAGE_ADDITIONS, (IMAGE,)
    copies = (MIRROR,) if chart_names(platform, catalogue) else ()
    if copies:
        yield MIRROR, (REPOSITORIES, BUCKET, *inside)
    if kubernetes:
        if not platform.adopted_cluster:
            yield CONTROL_PLANE, (NETWORK,)
        yield NETWORKING_ADDONS, (NETWORK if platform.adopted_cluster else CONTROL_PLANE,)
        yield SYSTEM_NODES, (NETWORKING_ADDONS,)
        yield CLUSTER_ADDONS, (SYSTEM_NODES,)
        # A chart's pods run on system nodes and use DNS. The volumes name the file system.
        yield CHARTS, (*copies, CLUSTER_ADDONS, *((files,) if platform.storage.lustre_by_key else ()))
    if not hyperpod:
        yield NODES, (NETWORKING_ADDONS,)
        return
    yield SCRIPTS, (BUCKET, *inside, *(() if kubernetes else (files,)))
    # HyperPod refuses an EKS cluster without its chart. Under Slurm, its nodes mount the file system.
    yield HYPERPOD, (NETWORK, SCRIPTS, *((CHARTS,) if kubernetes else (files,)))
    settings = platform.hyperpod_or_default
    if platform.task_governance or collector_of(platform) is Collector.HYPERPOD_ADDON:
        yield HYPERPOD_ADDONS, (HYPERPOD,)
    if kubernetes and settings.autoscaling:
        yield AUTOSCALING, (HYPERPOD,)
    if any(
        deep_health_checks(group, catalogue[group.instance_type], settings, kubernetes=kubernetes)
        for group in platform.node_groups
    ):
        yield DEEP_HEALTH_CHECKS, (HYPERPOD,)
