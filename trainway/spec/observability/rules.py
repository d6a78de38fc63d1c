"""Rules about observability: whether a collector that the file asks for can be made."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.observability.collection import key_that_asks, why_not_collected
from trainway.spec.platform import Platform
from trainway.spec.rule import Breach, instance_types, published_rule, rule
from trainway.spec.sections.orchestrator import Orchestrator

_REMEDIES = {
    Orchestrator.HYPERPOD_EKS: "remove the key, or give a group of 4xlarge or larger a count of 1 or more",
    Orchestrator.HYPERPOD_SLURM: "remove `exporters: false`, or remove this key",
}


@published_rule
def collectors_are_in_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Amazon Managed Service for Prometheus has collectors in the Region."""
    without = platform.region in service_facts().collectors.regions_without
    if platform.orchestrator is Orchestrator.EKS and without and (key := key_that_asks(platform)):
        reason = f"CloudFormation has no AWS::APS::Scraper in {platform.region}"
        yield key, reason, "remove the key, and run a Prometheus of yours: docs/node-metrics.md"


@rule
def collectors_have_what_they_need(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod's collector needs a node that is large enough, and the collector on Slurm needs exporters."""
    if any(name not in catalogue for _, name in instance_types(platform)):
        return  # reported by its own rule; there is nothing to compare
    key, reason = key_that_asks(platform), why_not_collected(platform)
    if key and reason and platform.orchestrator in _REMEDIES:
        yield key, reason, _REMEDIES[platform.orchestrator]


@rule
def each_orchestrator_has_its_own_collector(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`kubernetes.observability` is for the orchestrator eks. HyperPod's own add-on collects on hyperpod-eks."""
    if platform.orchestrator.is_hyperpod and platform.kubernetes_or_default.observability:
        reason = "HyperPod has an observability add-on of its own, which would collect the same metrics"
        yield ("kubernetes", "observability"), reason, "remove the key; a platform has a collector without it"
