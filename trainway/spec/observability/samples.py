"""How many samples a collector writes to the platform's workspace, which AWS bills."""

from __future__ import annotations

from collections.abc import Callable

from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.metrics import Per
from trainway.spec.observability.collection import collection_of
from trainway.spec.platform import Platform

SCRAPE_SECONDS = 30
"""Seconds between two scrapes. The AWS managed collector refuses a shorter interval."""
# A month of 730 hours, as in AWS's calculator.
SECONDS_PER_MONTH = 730 * 3600
_OF_INSTANCE: dict[Per, Callable[[Instance], int]] = {
    "node": lambda _: 1,
    "vcpu": lambda instance: instance.vcpus,
    "gpu": lambda instance: instance.accelerator.count if instance.accelerator else 0,
    "efa": lambda instance: instance.efa_interfaces,
}


def samples_per_month(platform: Platform, catalogue: Catalogue, *, most: bool = False) -> int:
    """Return the estimated number of samples per month, for the nodes after the deploy, or for all nodes if `most`.

    The collector stores only the metrics that panels and alarms use. System nodes are included.
    """
    collection, series = collection_of(platform, catalogue), 0
    nodes = [(types_of(group, catalogue)[0], group.largest if most else group.count) for group in platform.node_groups]
    if platform.orchestrator.is_kubernetes:
        system = platform.kubernetes_or_default.system_nodes
        nodes.append((catalogue[system.instance_type], system.count))
    for emitter in collection.emitters:
        for metric in emitter.metrics.values():
            if emitter.store != "prometheus" or platform.orchestrator.value not in (metric.under or emitter.under):
                continue
            if metric.per == "platform":
                series += metric.times
            else:
                of = _OF_INSTANCE[metric.per]
                series += sum(metric.times * of(instance) * count for instance, count in nodes)
    return series * SECONDS_PER_MONTH // SCRAPE_SECONDS
