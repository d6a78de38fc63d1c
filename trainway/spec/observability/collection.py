"""What is collected in a platform: which programs emit metrics, and what stores the Prometheus metrics, if anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trainway.spec.capacity.group_types import all_types
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics import Emitter, load_emitters
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

# The name of the document in the platform's bucket that says what the controller of Slurm scrapes.
SCRAPING_DOCUMENT: Final = "slurm-scraping"


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
    if platform.orchestrator is Orchestrator.HYPERPOD_EKS and platform.hyperpod_or_default.observability:
        return Collector.HYPERPOD_ADDON
    if platform.orchestrator is Orchestrator.EKS and platform.kubernetes_or_default.observability:
        return Collector.AWS_MANAGED
    if platform.orchestrator is Orchestrator.HYPERPOD_SLURM and platform.slurm_or_default.observability:
        return Collector.AGENT
    return None


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
    emitters = tuple(each for name, each in load_emitters().items() if runs[name])
    return Collection(collector, emitters, platform.orchestrator)
