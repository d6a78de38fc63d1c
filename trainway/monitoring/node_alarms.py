"""The alarms on nodes, their exporters, and EFA."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.monitoring.alarm import Alarm, Lines, Query, Threshold
from trainway.monitoring.gpu_alarms import BUSY_PERCENT, GPU
from trainway.spec.capacity.capacity_times import capacity_times
from trainway.spec.platform import Platform

_LOCAL = '{fstype=~"ext4|xfs"}'
# The share of a local disk that is free.
FREE_SPACE = f"node_filesystem_avail_bytes{_LOCAL} / node_filesystem_size_bytes{_LOCAL}"
# Exporters of one node have their own ports. The address in front of the port is the same.
HOST = '"host", "$1", "instance", "(.+?)(:[0-9]+)?"'
EFA = ("node_amazonefa_tx_bytes", "node_amazonefa_rdma_read_bytes", "node_amazonefa_rdma_write_bytes")
# Interfaces of the VPC, without those of containers.
TCP = 'node_network_transmit_bytes_total{device=~"e(n|th).*"}'
MEMORY = "node_memory_MemTotal_bytes"
# Nodes of Fargate have no DaemonSets.
READY = 'kube_node_status_condition{condition="Ready", status="true", node!~"fargate-.*"} == 1'


def node_alarms(platform: Platform) -> Iterator[Alarm]:
    """Yield the alarms on nodes, with the numbers of one platform."""
    yield from _nodes()
    yield _missing(platform)
    yield from _fabric()


def _nodes() -> Iterator[Alarm]:
    # HyperPod emits no event of these faults on Slurm. The stream has the group and the instance of the node.
    yield Alarm(
        "AgentFinding",
        "critical",
        (Lines("HealthMonitoringAgentDetectionEvent", by="@logStream"),),
        0,
        "HyperPod's health agent found a fault of a node. The lines below are from its log, whose stream ends with the "
        "ID of the instance.",
    )
    not_ready = 'kube_node_status_condition{condition="Ready", status=~"false|unknown"}'
    out_of_order = 'slurm_node_status{status=~"down|drained|draining|fail|failing|inval"}'
    yield Alarm(
        "NodeUnhealthy",
        "critical",
        (Query(f"max by (node) ({not_ready}) > 0"), Query(f"max by (node) ({out_of_order}) > 0")),
        2,
        "Node {{ $labels.node }} takes no jobs.",
        because="An update restarts the kubelet or slurmd, which is back within a minute.",
    )
    # A pod of Kubernetes has a limit, and the kernel of its node kills for it every day.
    yield Alarm(
        "OutOfMemory",
        "warning",
        (Query("increase(node_vmstat_oom_kill[10m]) > 0"),),
        0,
        "The kernel of {{ $labels.instance }} killed a process, because the node ran out of memory.",
    )
    yield Alarm(
        "DiskNearlyFull",
        "warning",
        (Query(f"{FREE_SPACE} < 0.1"),),
        5,
        "Less than 10 % of {{ $labels.mountpoint }} on {{ $labels.instance }} is free.",
        because="An image that is pulled needs its space twice until it is unpacked.",
    )
    yield _exporter_gone()
    yield Alarm(
        "ExporterBlind",
        "warning",
        (Threshold("trainway_collector_success", "Minimum", "<", 1, by=("collector", "instance")),),
        5,
        "The exporter {{ $labels.collector }} of {{ $labels.instance }} cannot read its source.",
        because="An update restarts the source of the exporter.",
    )


def _missing(platform: Platform) -> Alarm:
    """Return the alarm on nodes that the file has and the cluster lacks. A schedule may hold nodes of a block back."""
    fewest = sum(group.count for group in platform.node_groups if capacity_times(group) is None)
    if platform.orchestrator.is_kubernetes:
        fewest += platform.kubernetes_or_default.system_nodes.count
    return Alarm(
        "NodesMissing",
        "warning",
        (Query(f"count({READY}) < {fewest}"), Query(f"slurm_nodes_total - slurm_nodes_down < {fewest}")),
        20,
        f"The cluster has {{{{ $value }}}} nodes that are up, and the platform file has {fewest} or more.",
        because="A node that is replaced is missing for minutes.",
    )


def _exporter_gone() -> Alarm:
    """Return the alarm on exporters that do not answer.

    On Slurm, the controller lists the nodes. On EKS, the collector finds pods that run, and a node may have none. AWS
    does not publish that HyperPod's add-on stores `up`. There, an exporter of GPUs is gone if it answered within the
    last day, and its node is ready. The add-on's label of the other exporter's node is not published either, so the
    alarm counts: more nodes that are ready have no exporter than at the best time of the last day.
    """
    silent = 'max by (job, instance) (up{job!="runs"}) == 0'
    as_target = _labels(READY, "node", "node")
    without_pod = f'max by (job, instance) ({as_target}) unless on (instance) up{{job="node"}}'
    lost = f"max by (Hostname) (last_over_time({GPU}[1d])) unless on (Hostname) {GPU}"
    ready_gpus = f'({lost}) and on (Hostname) label_replace({READY}, "Hostname", "$1", "node", "(.*)")'
    gpus = f"max by (job, instance) ({_labels(ready_gpus, 'dcgm', 'Hostname')})"
    lacking = f"(count({READY}) - count(count by (instance) ({MEMORY})))"
    counted = f"{lacking} > min_over_time({lacking}[1d:5m])"
    nodes = f'label_replace(label_replace({counted}, "instance", "a node", "", ""), "job", "node", "", "")'
    return Alarm(
        "ExporterGone",
        "warning",
        (
            Query(f"({silent}) or ({without_pod})"),
            Query(silent),
            Query(f"({gpus}) or ({nodes})"),
            Query(nodes),
        ),
        5,
        "The exporter {{ $labels.job }} of {{ $labels.instance }} does not answer, and other alarms are blind.",
        because="An update restarts the exporter on each node.",
    )


def _labels(series: str, job: str, node: str) -> str:
    """Return series with the labels of a target: a job, and the value of the label `node` as the instance."""
    return f'label_replace(label_replace({series}, "instance", "$1", "{node}", "(.*)"), "job", "{job}", "", "")'


def _fabric() -> Iterator[Alarm]:
    def per_host(rate: str) -> str:
        return f"sum by (host) (label_replace({rate}, {HOST}))"

    def efa(over: str) -> str:
        return " + ".join(per_host(f"rate({each}{over})") for each in EFA)

    busy = f"max by (host) (label_replace({GPU}, {HOST})) > {BUSY_PERCENT}"
    yield Alarm(
        "EfaFalling",
        "warning",
        (
            Query(
                f"(({efa('[5m]')}) / ({efa('[5m] offset 30m')}) < 0.1) "
                f"and (({efa('[5m] offset 30m')}) > 10000000) and ({busy})"
            ),
        ),
        10,
        "{{ $labels.host }} sends {{ $value | humanizePercentage }} of the bytes of half an hour ago "
        "over EFA, and its GPUs are busy.",
        because="An evaluation or a checkpoint interrupts the traffic for minutes.",
    )
    yield Alarm(
        "TcpInsteadOfEfa",
        "critical",
        (
            Query(
                f"({per_host(f'rate({TCP}[5m])')} > 100000000) and on (host) (({efa('[5m]')}) < 1000000) "
                f"and on (host) ({busy})"
            ),
        ),
        10,
        "{{ $labels.host }} sends {{ $value | humanize }}B per second over TCP and nothing over EFA, "
        "and its GPUs are busy.",
        because="A job loads data over TCP before NCCL starts.",
    )
    yield Alarm(
        "EfaPathsLost",
        "warning",
        (Query("sum by (instance) (rate(node_amazonefa_retrans_timeout_events[5m])) > 0"),),
        5,
        "{{ $labels.instance }} loses packets of EFA.",
        because="EFA finds another path for single packets at once.",
    )
    devices = "count by (instance) (node_amazonefa_tx_bytes)"
    yield Alarm(
        "EfaLost",
        "critical",
        (Query(f"max_over_time(({devices})[1d:5m]) - {devices} > 0"),),
        5,
        "{{ $value }} EFA devices of {{ $labels.instance }} are gone: replace the node.",
        because="The devices of a node that starts come one after another.",
    )
