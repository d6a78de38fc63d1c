"""What emits metrics in a platform."""

from __future__ import annotations

from trainway.spec.derived.capacity_times import capacity_times
from trainway.spec.derived.group_types import all_types
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics import Emitter, load_emitters
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

# Where the first rank of each node answers Prometheus. OpenTelemetry's exporters for Prometheus have this port, too:
# https://opentelemetry.io/docs/specs/otel/metrics/sdk_exporters/prometheus/ (read 2026-11-25)
RUN_METRICS_PORT = 9464


def emitters(platform: Platform, catalogue: Catalogue) -> tuple[Emitter, ...]:
    """Return what emits metrics in a platform, as the stacks and the nodes' scripts install it."""
    instances = tuple(all_types(platform, catalogue))
    is_eks = platform.orchestrator is Orchestrator.EKS
    on_nodes = collected_by_addon(platform) or exported_by_nodes(platform)
    runs = {
        "lustre": True,
        "capacity_schedules": is_eks and any(map(capacity_times, platform.node_groups)),
        "node": on_nodes,
        "efa": on_nodes and any(each.efa_interfaces for each in instances),
        "dcgm": on_nodes and any(each.accelerator and each.accelerator.vendor == "nvidia" for each in instances),
        "slurm": exported_by_nodes(platform),
        "exporter": exported_by_nodes(platform),
        "kube": collected_by_addon(platform),
        "kueue": platform.kueue or (collected_by_addon(platform) and platform.task_governance),
        "run": True,
    }
    return tuple(each for name, each in load_emitters().items() if runs[name])


def has_metric(platform: Platform, catalogue: Catalogue, metric: str) -> bool:
    """Return whether something in the platform emits a metric that panels or alarms use."""
    orchestrator = platform.orchestrator.value
    return any(each.has(metric, orchestrator) for each in emitters(platform, catalogue))


def collected_by_addon(platform: Platform) -> bool:
    """Return whether HyperPod's observability add-on collects the metrics of nodes."""
    return platform.orchestrator is Orchestrator.HYPERPOD_EKS and platform.hyperpod_or_default.observability


def exported_by_nodes(platform: Platform) -> bool:
    """Return whether the scripts of the nodes install exporters."""
    return platform.orchestrator is Orchestrator.HYPERPOD_SLURM and platform.slurm_or_default.exporters
