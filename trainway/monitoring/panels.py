"""The panels of a platform's dashboard in Grafana: what each shows, in PromQL."""

from __future__ import annotations

from dataclasses import dataclass

from trainway.monitoring.promql import metrics_in
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.observability.collection import collection_of
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class Panel:
    """A graph: its row in the dashboard, its title, its query, and the unit of its values by Grafana's name.

    `legend` names a series by its labels, as `{{label}}`.
    """

    row: str
    title: str
    query: str
    unit: str
    legend: str

    @property
    def metrics(self) -> frozenset[str]:
        """The names of the metrics."""
        return metrics_in(self.query)


_RUN, _NODE, _GPU = "{{run}}", "{{run}} node {{node_rank}}", "{{Hostname}} GPU {{gpu}}"
_INSTANCE = "{{instance}}"
_NEWEST = "max by (run)"
# Each replica of Kueue exports the same metrics.
_QUOTA = "sum by (cluster_queue, resource) (max by (cluster_queue, flavor, resource)"
# The units are those of
# https://github.com/grafana/grafana/blob/main/packages/grafana-data/src/valueFormats/categories.ts (read 2026-11-25)
PANELS = (
    Panel("Runs", "Loss", f"{_NEWEST} (trainway_run_loss)", "none", _RUN),
    Panel("Runs", "Gradient norm", f"{_NEWEST} (trainway_run_gradient_norm)", "none", _RUN),
    Panel("Runs", "Tokens per second", f"{_NEWEST} (trainway_run_tokens_per_second)", "short", _RUN),
    Panel("Runs", "Model FLOPs utilization", f"{_NEWEST} (trainway_run_mfu)", "percentunit", _RUN),
    Panel("Runs", "Seconds of a step by phase", "avg by (run, phase) (trainway_run_phase_seconds)", "s", "{{phase}}"),
    Panel("Runs", "Seconds of a step", f"{_NEWEST} (trainway_run_step_seconds)", "s", _RUN),
    Panel(
        "Runs",
        "Progress",
        "max by (run) (trainway_run_step) / max by (run) (trainway_run_steps)",
        "percentunit",
        _RUN,
    ),
    Panel("Runs", "Slow ranks", "trainway_run_straggler_ratio", "none", "{{run}} rank {{rank}} of {{host}}"),
    Panel("Runs", "Most memory of a rank", "trainway_run_memory_bytes", "bytes", _NODE),
    Panel(
        "Runs",
        "Age of the newest checkpoint",
        f"time() - {_NEWEST} (trainway_run_checkpoint_timestamp_seconds)",
        "s",
        _RUN,
    ),
    Panel("Runs", "Pause for a checkpoint", f"{_NEWEST} (trainway_run_checkpoint_stall_seconds)", "s", _RUN),
    Panel("Runs", "Restarts", f"{_NEWEST} (trainway_run_restarts)", "short", _RUN),
    Panel("Runs", "Jobs", "max by (run, job_name) (trainway_run_info)", "short", "{{job_name}} {{run}}"),
    Panel("GPUs", "Utilization", "avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)", "percent", "{{Hostname}}"),
    Panel("GPUs", "Tensor cores", "avg by (Hostname) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)", "percentunit", "{{Hostname}}"),
    Panel(
        "GPUs",
        "Used memory",
        "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
        "percentunit",
        _GPU,
    ),
    Panel("GPUs", "Power", "sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE)", "watt", "{{Hostname}}"),
    Panel("GPUs", "Temperature", "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", "celsius", "{{Hostname}}"),
    Panel("GPUs", "Clock of the SMs", "1e6 * min by (Hostname) (DCGM_FI_DEV_SM_CLOCK)", "hertz", "{{Hostname}}"),
    Panel(
        "Fabric",
        "Sent over EFA",
        "sum by (instance) (rate(node_amazonefa_tx_bytes[5m]))",
        "Bps",
        _INSTANCE,
    ),
    Panel("Fabric", "Received over EFA", "sum by (instance) (rate(node_amazonefa_rx_bytes[5m]))", "Bps", _INSTANCE),
    Panel("Fabric", "Dropped by EFA", "sum by (instance) (rate(node_amazonefa_rx_drops[5m]))", "pps", _INSTANCE),
    Panel(
        "Nodes",
        "Processors in use",
        '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))',
        "percentunit",
        _INSTANCE,
    ),
    Panel(
        "Nodes",
        "Memory in use",
        "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
        "percentunit",
        _INSTANCE,
    ),
    Panel("Nodes", "Pods by phase", "sum by (phase) (kube_pod_status_phase)", "short", "{{phase}}"),
    Panel("Nodes", "Nodes that are allocated", "sum(slurm_nodes_alloc)", "short", "allocated"),
    Panel("Nodes", "Nodes that are idle", "sum(slurm_nodes_idle)", "short", "idle"),
    Panel("Nodes", "Nodes that are down or drained", "sum(slurm_nodes_down + slurm_nodes_drain)", "short", "unusable"),
    Panel("Nodes", "Nodes", "max(slurm_nodes_total)", "short", "all"),
    Panel("Teams", "Jobs that run", "slurm_jobs_running", "short", "running"),
    Panel("Teams", "Jobs that wait", "slurm_jobs_pending", "short", "pending"),
    Panel(
        "Teams",
        "Jobs that wait, by queue",
        "sum by (cluster_queue) (max by (cluster_queue, status) (kueue_pending_workloads))",
        "short",
        "{{cluster_queue}}",
    ),
    Panel(
        "Teams",
        "Jobs that run, by queue",
        "max by (cluster_queue) (kueue_admitted_active_workloads)",
        "short",
        "{{cluster_queue}}",
    ),
    Panel(
        "Teams",
        "Quota in use",
        f"{_QUOTA} (kueue_cluster_queue_resource_usage)) / {_QUOTA} (kueue_cluster_queue_nominal_quota))",
        "percentunit",
        "{{cluster_queue}} {{resource}}",
    ),
    Panel("Teams", "Running jobs by account", "slurm_account_jobs_running", "short", "{{account}}"),
    Panel("Teams", "Waiting jobs by account", "slurm_account_jobs_pending", "short", "{{account}}"),
)


def panels(platform: Platform, catalogue: Catalogue) -> tuple[Panel, ...]:
    """Return the panels whose metrics a platform has."""
    collection = collection_of(platform, catalogue)
    return tuple(panel for panel in PANELS if collection.has(*panel.metrics))
