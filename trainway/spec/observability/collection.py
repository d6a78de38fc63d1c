"""What is collected in a platform: which programs emit metrics, and what stores the Prometheus metrics, if anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from trainway.spec.capacity.group_types import all_types, types_of
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.facts.metrics import Emitter, load_emitters
from trainway.spec.facts.services import service_facts
from trainway.spec.observability.quota_classes import quota_classes
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.sections.orchestrator import Orchestrator

# The name of the document in the platform's bucket that says what the controller of Slurm scrapes.
SCRAPING_DOCUMENT: Final = "slurm-scraping"
_KEY = "observability"


class Collector(StrEnum):
    """The collectors that can write a platform's metrics to Amazon Managed Service for Prometheus."""

    HYPERPOD_ADDON = "HyperPod's observability add-on"
    AWS_MANAGED = "an AWS managed collector"
    AGENT = "Prometheus in agent mode on Slurm's controller"


@dataclass(frozen=True)
class Collection:
    """What emits metrics in a platform, and what collects those of Prometheus.

    `by` is None if the platform has no collector and no workspace. The `emitters` exist nevertheless, so that a
    Prometheus of yours can scrape them.
    """

    by: Collector | None
    emitters: tuple[Emitter, ...]
    orchestrator: Orchestrator

    def has(self, *metrics: str) -> bool:
        """Return whether something in the platform emits each of the metrics, which panels or alarms use."""
        return all(any(each.has(metric, self.orchestrator.value) for each in self.emitters) for metric in metrics)


def collector_of(platform: Platform) -> Collector | None:
    """Return the collector that writes the metrics of a platform to a workspace, or None without a collector."""
    collector, _, own = _by_orchestrator(platform)
    if key_that_asks(platform):
        return collector
    wanted = own is None and platform.observability.metrics == "prometheus"
    return collector if wanted and why_not_collected(platform) is None else None


def key_that_asks(platform: Platform) -> KeyPath | None:
    """Return the key by which the file asks for a collector, or None if a collector is only the default."""
    _, key, own = _by_orchestrator(platform)
    if own:
        return key
    metrics = platform.observability
    said = "metrics" in metrics.model_fields_set and metrics.metrics == "prometheus"
    return ("observability", "metrics") if said and own is None else None


def why_not_collected(platform: Platform) -> str | None:
    """Return why a platform has no collector by default, or None if it has one."""
    if platform.adopted_cluster:
        return "whoever owns the cluster may collect its metrics already"
    orchestrator, needed = platform.orchestrator, service_facts().hyperpod.observability_vcpus
    if orchestrator is Orchestrator.EKS and platform.region in service_facts().collectors.regions_without:
        return f"CloudFormation has no AWS::APS::Scraper in {platform.region}"
    if orchestrator is Orchestrator.HYPERPOD_EKS and _most_vcpus(platform) < needed:
        return f"HyperPod installs its collector on a node with {needed} vCPUs or more, and the deploy makes none"
    if orchestrator is Orchestrator.HYPERPOD_SLURM and not platform.slurm_or_default.exporters:
        return "`exporters` is false, so no node has metrics to collect"
    return None


def _by_orchestrator(platform: Platform) -> tuple[Collector, KeyPath, bool | None]:
    """Return the collector of the orchestrator, with the key of its section that turns it on or off, and its value."""
    match platform.orchestrator:
        case Orchestrator.EKS:
            return Collector.AWS_MANAGED, ("kubernetes", _KEY), platform.kubernetes_or_default.observability
        case Orchestrator.HYPERPOD_EKS:
            return Collector.HYPERPOD_ADDON, ("hyperpod", _KEY), platform.hyperpod_or_default.observability
        case Orchestrator.HYPERPOD_SLURM:
            return Collector.AGENT, ("slurm", _KEY), platform.slurm_or_default.observability
        case _ as unreachable:
            assert_never(unreachable)


def _most_vcpus(platform: Platform) -> int:
    """Return the vCPUs of the largest node that the deploy surely makes, or 0 without such a node."""
    catalogue = load_catalogue()
    made = [group for group in platform.node_groups if group.count]
    known = [group for group in made if all(name in catalogue for name in group.instance_types)]
    return max((min(each.vcpus for each in types_of(group, catalogue)) for group in known), default=0)


def collection_of(platform: Platform, catalogue: Catalogue) -> Collection:
    """Return the metric emitters that the stacks and lifecycle scripts install in a platform, and the collector."""
    instances, collector = tuple(all_types(platform, catalogue)), collector_of(platform)
    # The scripts of Slurm's nodes install exporters, with or without a collector.
    by_scripts = platform.orchestrator is Orchestrator.HYPERPOD_SLURM and platform.slurm_or_default.exporters
    in_pods = collector in (Collector.HYPERPOD_ADDON, Collector.AWS_MANAGED)
    on_nodes = in_pods or by_scripts
    has_efa = any(each.efa_interfaces for each in instances)
    runs = {
        "lustre": platform.storage.lustre is not None,
        "queues": True,
        "rules": True,
        "nat": platform.network.existing is None and not platform.network.is_closed,
        "usage": bool(quota_classes(platform, catalogue)),
        "agent": platform.region not in service_facts().log_alarms.regions_without,
        "node": on_nodes,
        "efa": on_nodes and has_efa,
        "dcgm": on_nodes and any(each.accelerator and each.accelerator.vendor == "nvidia" for each in instances),
        "slurm": by_scripts,
        # Of Trainway's own exporters, a cluster of EKS has the one of EFA.
        "exporter": by_scripts or (collector is Collector.AWS_MANAGED and has_efa),
        "scrape": collector in (Collector.AWS_MANAGED, Collector.AGENT),
        "kube": in_pods,
        "kueue": platform.kueue or (in_pods and platform.task_governance),
        "run": True,
    }
    under = platform.orchestrator.value
    emitters = tuple(each for name, each in load_emitters().items() if runs[name] and under in each.under)
    return Collection(collector, emitters, platform.orchestrator)
