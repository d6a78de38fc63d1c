"""The panels of a platform's dashboards: what each shows, and in which store its metrics are."""

from __future__ import annotations

from trainway.monitoring.alarm import FILE_SYSTEM
from trainway.monitoring.alarms import DATA_WAIT
from trainway.monitoring.node_alarms import FREE_SPACE, TCP
from trainway.monitoring.panel import ROWS, Panel, Series
from trainway.monitoring.usage import usage_panels
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.observability.collection import collection_of
from trainway.spec.platform import Platform

_RUN, _NODE, _GPU = "{{run}}", "{{run}} node {{node_rank}}", "{{Hostname}} GPU {{gpu}}"
_INSTANCE = "{{instance}}"
_NEWEST = "max by (run)"
# Each replica of Kueue exports the same metrics.
_QUOTA = "sum by (cluster_queue, resource) (max by (cluster_queue, flavor, resource)"
# The units are those of
# https://github.com/grafana/grafana/blob/main/packages/grafana-data/src/valueFormats/categories.ts (read 2026-11-25)
PANELS = (
    Panel("Jobs", "Loss", f"{_NEWEST} (trainway_run_loss)", "none", _RUN),
    Panel("Jobs", "Gradient norm", f"{_NEWEST} (trainway_run_gradient_norm)", "none", _RUN),
    Panel("Jobs", "Tokens per second", f"{_NEWEST} (trainway_run_tokens_per_second)", "short", _RUN),
    Panel("Jobs", "Model FLOPs utilization", f"{_NEWEST} (trainway_run_mfu)", "percentunit", _RUN),
    Panel("Jobs", "Seconds of a step by phase", "avg by (run, phase) (trainway_run_phase_seconds)", "s", "{{phase}}"),
    Panel("Jobs", "Seconds of a step", f"{_NEWEST} (trainway_run_step_seconds)", "s", _RUN),
    Panel(
        "Jobs",
        "Progress",
        "max by (run) (trainway_run_step) / max by (run) (trainway_run_steps)",
        "percentunit",
        _RUN,
    ),
    Panel("Jobs", "Slow ranks", "trainway_run_straggler_ratio", "none", "{{run}} rank {{rank}} of {{host}}"),
    Panel("Jobs", "Most memory of a rank", "trainway_run_memory_bytes", "bytes", _NODE),
    Panel(
        "Storage",
        "Age of the newest checkpoint",
        f"time() - {_NEWEST} (trainway_run_checkpoint_timestamp_seconds)",
        "s",
        _RUN,
    ),
    Panel("Storage", "Pause for a checkpoint", f"{_NEWEST} (trainway_run_checkpoint_stall_seconds)", "s", _RUN),
    Panel("Jobs", "Restarts", f"{_NEWEST} (trainway_run_restarts)", "short", _RUN),
    Panel("Jobs", "Jobs", "max by (run, job_name) (trainway_run_info)", "short", "{{job_name}} {{run}}"),
    Panel("Cluster", "GPUs: utilization", "avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)", "percent", "{{Hostname}}"),
    Panel(
        "Cluster",
        "GPUs: tensor cores",
        "avg by (Hostname) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)",
        "percentunit",
        "{{Hostname}}",
    ),
    Panel(
        "Cluster",
        "GPUs: used memory",
        "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
        "percentunit",
        _GPU,
    ),
    Panel("Cluster", "GPUs: power", "sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE)", "watt", "{{Hostname}}"),
    Panel("Cluster", "GPUs: temperature", "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", "celsius", "{{Hostname}}"),
    Panel(
        "Cluster", "GPUs: clock of the SMs", "1e6 * min by (Hostname) (DCGM_FI_DEV_SM_CLOCK)", "hertz", "{{Hostname}}"
    ),
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
        "Fabric",
        "Timeouts of EFA",
        "sum by (instance) (rate(node_amazonefa_retrans_timeout_events[5m]))",
        "cps",
        _INSTANCE,
    ),
    Panel("Fabric", "Sent over TCP", f"sum by (instance) (rate({TCP}[5m]))", "Bps", _INSTANCE),
    Panel(
        "Storage",
        "Waiting for data, as a share of a step",
        f"max by (run) ({DATA_WAIT})",
        "percentunit",
        _RUN,
    ),
    Panel(
        "Storage",
        "Free space of local disks",
        f"min by (instance, mountpoint) ({FREE_SPACE})",
        "percentunit",
        "{{instance}} {{mountpoint}}",
    ),
    Panel(
        "Cluster",
        "Processors in use",
        '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))',
        "percentunit",
        _INSTANCE,
    ),
    Panel(
        "Cluster",
        "Memory in use",
        "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
        "percentunit",
        _INSTANCE,
    ),
    Panel("Cluster", "Pods by phase", "sum by (phase) (kube_pod_status_phase)", "short", "{{phase}}"),
    Panel("Cluster", "Nodes that are allocated", "sum(slurm_nodes_alloc)", "short", "allocated"),
    Panel("Cluster", "Nodes that are idle", "sum(slurm_nodes_idle)", "short", "idle"),
    Panel(
        "Cluster", "Nodes that are down or drained", "sum(slurm_nodes_down + slurm_nodes_drain)", "short", "unusable"
    ),
    Panel("Cluster", "Nodes", "max(slurm_nodes_total)", "short", "all"),
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

_OF_LUSTRE = (("FileSystemId", FILE_SYSTEM),)
# FSx sends a point of each storage target every minute, so that the sum over a minute is the file system's.
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html (read 2026-11-30)
_LUSTRE = (
    Panel(
        "Storage",
        "Lustre: bytes in a minute",
        (
            Series("DataReadBytes", "Sum", _OF_LUSTRE, "read"),
            Series("DataWriteBytes", "Sum", _OF_LUSTRE, "written"),
        ),
        "bytes",
    ),
    Panel(
        "Storage",
        "Lustre: requests in a minute",
        (
            Series("DataReadOperations", "Sum", _OF_LUSTRE, "reads"),
            Series("DataWriteOperations", "Sum", _OF_LUSTRE, "writes"),
            Series("MetadataOperations", "Sum", _OF_LUSTRE, "metadata"),
        ),
        "short",
        about="Many requests with few bytes come from small files.",
    ),
)
_FREE_SPACE_OF_LUSTRE = (
    Panel(
        "Storage",
        "Lustre: free bytes of a storage target",
        (
            Series("FreeDataStorageCapacity", "Minimum", _OF_LUSTRE, "fullest target"),
            Series("FreeDataStorageCapacity", "Average", _OF_LUSTRE, "mean of the targets"),
        ),
        "bytes",
        about="Writes of a file fail when one of its targets is full.",
    ),
)


def panels(platform: Platform, catalogue: Catalogue) -> tuple[Panel, ...]:
    """Return the panels whose metrics a platform has, row by row. Each has the metrics of one store."""
    collection = collection_of(platform, catalogue)
    lustre = platform.storage.lustre
    # A file system without a fixed capacity cannot fill up.
    free_space = () if lustre is None or lustre.is_elastic else _FREE_SPACE_OF_LUSTRE
    every = (*PANELS, *_LUSTRE, *free_space, *usage_panels(platform, catalogue))
    found = [panel for panel in every if collection.has(*panel.metrics)]
    return tuple(sorted(found, key=lambda panel: ROWS.index(panel.row)))


def prometheus_panels(platform: Platform, catalogue: Catalogue) -> tuple[tuple[Panel, str], ...]:
    """Return the panels whose metrics Prometheus has, each with its query."""
    return tuple((each, each.query) for each in panels(platform, catalogue) if isinstance(each.query, str))


def cloudwatch_panels(platform: Platform, catalogue: Catalogue) -> tuple[tuple[Panel, tuple[Series, ...]], ...]:
    """Return the panels whose metrics CloudWatch has, each with its series."""
    return tuple((each, each.query) for each in panels(platform, catalogue) if not isinstance(each.query, str))
