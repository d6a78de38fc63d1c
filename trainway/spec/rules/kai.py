"""What the KAI scheduler can share out: GPUs, CPUs and memory, each counted over all nodes together.

https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/queues/README.md (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule

QUEUES: KeyPath = ("kubernetes", "queues")
OR_KUEUE = "or write `queues: kueue`"


@rule
def kai_has_something_to_share(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The KAI scheduler is for teams, and for nodes that are not HyperPod's."""
    if platform.kubernetes_or_default.chosen_queues != "kai":
        return
    if platform.orchestrator.is_hyperpod:
        reason = f"with the orchestrator {platform.orchestrator.value}, HyperPod's task governance shares the nodes"
        yield QUEUES, reason, "remove the key, or use the orchestrator eks"
    elif not platform.teams:
        yield QUEUES, "the file names no teams, between whom it could share the nodes", "name teams, or remove the key"


@rule
def kai_counts_what_nodes_have(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """No queue of KAI's counts Neuron devices, so they would go to whoever comes first.

    https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/pkg/scheduler/api/resource_info/resource_requirment.go
    (GPUResourceName, amdGpuResourceName, read 2026-11-21)
    """
    if not platform.kai:
        return
    for index, group in enumerate(platform.node_groups):
        instance = catalogue.get(group.instance_type)
        if instance and instance.accelerator and instance.accelerator.vendor == "neuron":
            key: KeyPath = ("node_groups", index, "instance_type")
            yield key, "the KAI scheduler has no quota for Neuron devices", "write `queues: kueue` in `kubernetes`"


@rule
def kai_tells_guaranteed_nodes_apart(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """KAI guarantees nodes to a team only if no other quota applies to them, and the team's quota to no others.

    A taint keeps other pods off nodes with GPUs, so KAI tells one type with GPUs apart from all types without.
    """
    offers = dict.fromkeys(group.instance_type for group in platform.node_groups)
    if not platform.kai or any(name not in catalogue for name in offers):
        return  # the unknown type is reported by its own rule
    counted = [name for name in offers if catalogue[name].accelerator] or list(offers)
    for index, team in enumerate(platform.teams):
        for name, nodes in team.guarantee.items():
            others = [other for other in (counted if name in counted else offers) if other != name]
            if nodes and name in offers and others:
                reason = f"the KAI scheduler counts GPUs, CPUs and memory, and cannot tell {name} from {others[0]}"
                yield ("teams", index, "guarantee", name), reason, f"leave the guarantee out, {OR_KUEUE}"
