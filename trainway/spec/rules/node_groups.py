"""Node groups: names, types, counts, and how they are bought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainway.spec.derived.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, instance_types, rule
from trainway.spec.sections.capacity import TrainingPlan, capacity_kind
from trainway.spec.sections.orchestrator import Orchestrator

# The ways to buy an instance type that an orchestrator's nodes cannot use.
NOT_TAKEN = {
    Orchestrator.EKS: {"training-plan"},
    Orchestrator.HYPERPOD_EKS: {"reservation", "capacity-block"},
    Orchestrator.HYPERPOD_SLURM: {"reservation", "capacity-block", "spot"},
}


@rule
def node_groups_are_named_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Node group names are unique, and none takes the name of a group that the platform adds."""
    seen = Counter[str]()
    for index, group in enumerate(platform.node_groups):
        seen[group.name] += 1
        if seen[group.name] > 1:
            yield ("node_groups", index, "name"), "another node group has this name", "give each group its own name"
        if group.name in ("system", "controller", "login"):
            remedy = "choose another name; that group is described under `kubernetes` or `slurm`"
            yield ("node_groups", index, "name"), "the platform itself has a group of this name", remedy


@rule
def instance_types_are_known(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every instance type is in the catalogue; the platform's own nodes have no accelerator."""
    for key, name in instance_types(platform):
        if name not in catalogue and (why := catalogue.why_left_out(name)):
            yield key, f"the platform does not support it: {why}", "`trainway instances` lists the supported types"
        elif name not in catalogue:
            close = catalogue.suggest(name)
            remedy = f"did you mean {' or '.join(close)}?" if close else "`trainway instances` lists what there is"
            yield key, "the instance catalogue has no such type", remedy
        elif key[0] != "node_groups" and catalogue[name].accelerator is not None:
            yield key, "an accelerated type would be idle here", "use a CPU type such as m7i.2xlarge"


@rule
def counts_are_in_order(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A group never starts larger than it may grow, nor waits for more nodes than it starts with."""
    for index, group in enumerate(platform.node_groups):
        if group.max_count is not None and group.max_count < group.count:
            yield (
                ("node_groups", index, "max_count"),
                f"it is less than count, which is {group.count}",
                f"write {group.count} or more, or leave it out",
            )
        if group.min_count > group.count:
            reason = f"it is more than count, which is {group.count}"
            yield ("node_groups", index, "min_count"), reason, f"write {group.count} or less"


@rule
def max_pods_can_be_run(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A node is told to run no more pods than EKS lets its type run, and only where there is somebody to tell."""
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "max_pods")
        if group.max_pods is None or not all(name in catalogue for name in group.instance_types):
            continue
        types = types_of(group, catalogue)
        smallest = min(types, key=lambda each: each.pod_capacity(prefix_delegation=True))
        most = smallest.pod_capacity(prefix_delegation=True)
        if platform.orchestrator is not Orchestrator.EKS:
            yield key, f"{platform.orchestrator.value} nodes are not told how many pods to run", "remove the key"
        elif group.max_pods > most:
            yield key, f"EKS lets a {smallest.name} node run {most} pods", f"write {most} or less"


@rule
def capacity_fits_the_orchestrator(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """EC2 reservations are for EKS, training plans for HyperPod, and the type can be bought that way at all.

    Spot, for EKS throughout: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-spot.html
    (read 2026-11-21)
    """
    hyperpod = platform.orchestrator.is_hyperpod
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "capacity")
        kind = capacity_kind(group.capacity)
        if hyperpod and kind in ("reservation", "capacity-block"):
            yield key, "HyperPod cannot use EC2 capacity reservations", "buy a training plan whose target is HyperPod"
        elif not hyperpod and kind == "training-plan":
            remedy = "use a reservation or a Capacity Block, or the orchestrator hyperpod-eks"
            yield key, "training plans belong to HyperPod; plain EKS nodes cannot use them", remedy
        else:
            for name in group.instance_types:
                if name in catalogue and kind not in catalogue[name].capacity_kinds:
                    offered = sorted(set(catalogue[name].capacity_kinds) - NOT_TAKEN[platform.orchestrator])
                    yield key, f"{name} is not sold as {kind}", f"it can be bought as {', '.join(offered)}"
        if kind == "spot" and platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
            reason = "HyperPod has Spot nodes on EKS only, as far as is documented"
            yield key, reason, "use on-demand or a training plan, or the orchestrator hyperpod-eks"
        if isinstance(group.capacity, TrainingPlan) and platform.region not in group.capacity.training_plan.split(":"):
            yield key, f"the training plan is not in {platform.region}", "use a plan of the platform's Region"
