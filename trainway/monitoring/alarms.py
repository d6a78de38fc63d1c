"""The alarms of a platform. docs/alarms.md has a section for each, which says what to do."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.monitoring.alarm import (
    FILE_SYSTEM,
    NAT_GATEWAY,
    QUEUED_RULE,
    QUOTA_CLASS,
    RULE,
    Alarm,
    Lines,
    Query,
    Threshold,
)
from trainway.monitoring.events import events_queue
from trainway.monitoring.gpu_alarms import BUSY_PERCENT, GPU, IDLE_MINUTES, IDLE_PERCENT, gpu_alarms
from trainway.spec.capacity.capacity_times import capacity_times, failed_calls_queue
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.observability.collection import collection_of
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

EXPORT_BEHIND_SECONDS = 3600
# Longer than three tries of the runbook that tells of events. The age of the oldest message would be that of one that
# was received less than three times.
UNTOLD_MINUTES = 15
# Less than a whole node may be left of a quota above it.
QUOTA_PERCENT = 90
QUEUED = "ApproximateNumberOfMessagesVisible"
STEP, STEP_SECONDS, LOSS = "trainway_run_step", "trainway_run_step_seconds", "trainway_run_loss"
STEPPED = "trainway_run_last_step_timestamp_seconds"
# The share of a step in which a node waits for data, and that of a local disk which is free.
DATA_WAIT = f'trainway_run_phase_seconds{{phase="data_wait"}} / ignoring (phase) {STEP_SECONDS}'
_LOCAL = '{fstype=~"ext4|xfs"}'
FREE_SPACE = f"node_filesystem_avail_bytes{_LOCAL} / node_filesystem_size_bytes{_LOCAL}"
# Exporters of one node have their own ports. The address in front of the port is the same.
HOST = '"host", "$1", "instance", "(.+?)(:[0-9]+)?"'
EFA = ("node_amazonefa_tx_bytes", "node_amazonefa_rdma_read_bytes", "node_amazonefa_rdma_write_bytes")
ACCELERATORS = "nvidia.com/gpu|aws.amazon.com/neuron.*"
# Interfaces of the VPC, without those of containers.
TCP = 'node_network_transmit_bytes_total{device=~"e(n|th).*"}'


def alarms(platform: Platform, catalogue: Catalogue) -> tuple[Alarm, ...]:
    """Return the alarms of a platform, each with the condition whose metrics the platform has."""
    found, collection = [], collection_of(platform, catalogue)
    for alarm in every_alarm(platform):
        for condition in alarm.conditions:
            if collection.has(*condition.metrics):
                found.append(
                    Alarm(
                        alarm.name,
                        alarm.severity,
                        (condition,),
                        alarm.minutes,
                        alarm.summary,
                        missing_is_fine=alarm.missing_is_fine,
                    )
                )
                break
    return tuple(found)


def every_alarm(platform: Platform) -> Iterator[Alarm]:
    """Yield the alarms of all orchestrators, with the numbers of one platform."""
    yield from _file_system(platform)
    if platform.orchestrator is Orchestrator.EKS and any(map(capacity_times, platform.node_groups)):
        failed = failed_calls_queue(platform.name)
        yield Alarm(
            "CapacityScheduleFailed",
            "critical",
            (Threshold(QUEUED, "Maximum", ">", 0, {"QueueName": failed}),),
            5,
            "A schedule could not set the nodes of a Capacity Block. The call is in the queue "
            f"{failed}: set the nodes by hand.",
        )
    queue = events_queue(platform.name)
    yield Alarm(
        "EventsNotTold",
        "warning",
        (Threshold(QUEUED, "Minimum", ">", 0, {"QueueName": queue}),),
        UNTOLD_MINUTES,
        f"An event of AWS that people should have been told of has been in the queue {queue} for {UNTOLD_MINUTES} "
        "minutes.",
    )
    yield from _FROM_SERVICES
    yield from _nodes()
    yield from gpu_alarms()
    yield from _fabric()
    yield from _queues()
    yield from _RUN_ALARMS


def _file_system(platform: Platform) -> Iterator[Alarm]:
    lustre = platform.storage.lustre
    if lustre is None:
        return
    free = 100 - lustre.nearly_full_percent
    # A file system without a fixed capacity cannot fill up.
    if not lustre.is_elastic:
        yield Alarm(
            "LustreNearlyFull",
            "critical",
            (
                Threshold(
                    "FreeDataStorageCapacity",
                    "Sum",
                    "<",
                    free / 100 * lustre.capacity_gib * 2**30,
                    {"FileSystemId": FILE_SYSTEM},
                    # FSx sends a point of each storage target every minute.
                    # https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html (read 2026-11-30)
                    period_seconds=60,
                ),
            ),
            15,
            f"Less than {free} % of the Lustre file system is free: checkpoints are about to fail.",
            missing_is_fine=False,
        )
        yield _full_target(lustre.capacity_gib, free / 2)
    if lustre.mirrored:
        yield Alarm(
            "LustreExportBehind",
            "critical",
            (
                Threshold(
                    "AgeOfOldestQueuedMessage",
                    "Maximum",
                    ">",
                    EXPORT_BEHIND_SECONDS,
                    {"FileSystemId": FILE_SYSTEM, "Publisher": "AutoExport"},
                ),
            ),
            15,
            "What was written an hour ago is not in the bucket yet, and goes with the file system.",
        )


def _full_target(capacity_gib: float, percent: float) -> Alarm:
    """Return the alarm on the fullest storage target: a file without stripes is on one target."""
    return Alarm(
        "LustreTargetFull",
        "critical",
        (
            Threshold(
                "FreeDataStorageCapacity",
                "Minimum",
                "<",
                percent / 100 * capacity_gib * 2**30,
                {"FileSystemId": FILE_SYSTEM},
                times_count=True,
                period_seconds=60,
            ),
        ),
        15,
        f"Less than {percent:g} % of a storage target of the Lustre file system is free. Writes to it soon fail.",
        missing_is_fine=False,
    )


# Of metrics that services send to CloudWatch, and send only while there is something to count.
_FROM_SERVICES = (
    # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-monitoring.html (read 2026-12-01)
    Alarm(
        "RuleFailed",
        "warning",
        (Threshold("FailedInvocations", "Sum", ">", 0, {"RuleName": RULE}),),
        5,
        "EventBridge could not give an event to the targets of a rule, so people may not have been told of it.",
    ),
    Alarm(
        "DeadLetterFailed",
        "warning",
        (Threshold("InvocationsFailedToBeSentToDlq", "Sum", ">", 0, {"RuleName": QUEUED_RULE}),),
        5,
        "EventBridge could deliver an event neither to the topic of the alarms nor to the queue, and dropped it.",
    ),
    # https://docs.aws.amazon.com/vpc/latest/userguide/metrics-dimensions-nat-gateway.html (read 2026-12-01)
    Alarm(
        "NatPorts",
        "warning",
        (Threshold("ErrorPortAllocation", "Sum", ">", 0, {"NatGatewayId": NAT_GATEWAY}),),
        5,
        "The NAT gateway has no free port for new connections to one destination: nodes open too many.",
    ),
    Alarm(
        "QuotaNearlyUsed",
        "warning",
        (
            Threshold(
                "ResourceCount",
                "Maximum",
                ">",
                QUOTA_PERCENT,
                {"Service": "EC2", "Type": "Resource", "Resource": "vCPU", "Class": QUOTA_CLASS},
                of_quota=True,
            ),
        ),
        5,
        f"The account uses more than {QUOTA_PERCENT} % of an EC2 quota of vCPUs. Node groups cannot grow beyond it.",
    ),
)


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
        5,
        "Node {{ $labels.node }} takes no jobs.",
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
        15,
        "Less than 10 % of {{ $labels.mountpoint }} on {{ $labels.instance }} is free.",
    )
    # On Slurm, the controller lists the nodes. On EKS, the collector finds pods that run, and a node may have none.
    silent = 'max by (job, instance) (up{job!="runs"}) == 0'
    # Nodes of Fargate have no DaemonSets.
    ready = 'kube_node_status_condition{condition="Ready", status="true", node!~"fargate-.*"} == 1'
    as_target = f'label_replace(label_replace({ready}, "instance", "$1", "node", "(.*)"), "job", "node", "", "")'
    yield Alarm(
        "ExporterGone",
        "warning",
        (
            Query(f'({silent}) or (max by (job, instance) ({as_target}) unless on (instance) up{{job="node"}})'),
            Query(silent),
        ),
        10,
        "The exporter {{ $labels.job }} of {{ $labels.instance }} does not answer, and other alarms are blind.",
    )
    yield Alarm(
        "ExporterBlind",
        "warning",
        (Threshold("trainway_collector_success", "Minimum", "<", 1, by=("collector", "instance")),),
        10,
        "The exporter {{ $labels.collector }} of {{ $labels.instance }} cannot read its source.",
    )


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
    )
    yield Alarm(
        "EfaPathsLost",
        "warning",
        (Query("sum by (instance) (rate(node_amazonefa_retrans_timeout_events[5m])) > 0"),),
        5,
        "{{ $labels.instance }} loses packets of EFA.",
    )


def _queues() -> Iterator[Alarm]:
    # Each replica of Kueue exports the same metrics.
    waits = "sum by (cluster_queue) (max by (cluster_queue, status) (kueue_pending_workloads)) > 0"
    quota, usage = (
        f'max by (cluster_queue, flavor, resource) (kueue_cluster_queue_{each}{{resource=~"{ACCELERATORS}"}})'
        for each in ("nominal_quota", "resource_usage")
    )
    idle_nodes = f"count(max by (Hostname) (max_over_time({GPU}[{IDLE_MINUTES}m])) < {IDLE_PERCENT})"
    yield Alarm(
        "JobsWaitForFreeNodes",
        "warning",
        (
            Query(f"{waits} and on (cluster_queue) (sum by (cluster_queue) ({quota} - {usage}) > 0)"),
            Query(f"{waits} and on () ({idle_nodes} > 0)"),
        ),
        IDLE_MINUTES,
        f"{{{{ $value }}}} jobs have waited in the queue {{{{ $labels.cluster_queue }}}} for {IDLE_MINUTES} minutes, "
        "and accelerators were free all the time.",
    )


# The conditions on the metrics of runs are the same on every platform.
_RUN_ALARMS = (
    Alarm(
        "RunHangs",
        "critical",
        # Ten of its steps, and no less than ten minutes. Before its first step, a run may load for half an hour.
        (
            Query(
                f"(time() - {STEPPED} > clamp_min(10 * {STEP_SECONDS}, 600)) "
                f"or (time() - {STEPPED} > 1800 unless {STEP_SECONDS})"
            ),
        ),
        1,
        "Run {{ $labels.run }} has not taken a step for {{ $value | humanizeDuration }}.",
    ),
    Alarm(
        "LossNotFinite",
        "critical",
        (
            Query(
                f"({LOSS} != {LOSS}) or (abs({LOSS}) == Inf) or (increase(trainway_run_skipped_steps_total[15m]) > 5)"
            ),
        ),
        0,
        "The loss or the gradient of run {{ $labels.run }} is not finite.",
    ),
    Alarm(
        "LossSpike",
        "warning",
        (Query(f"{LOSS} > 1.25 * quantile_over_time(0.5, {LOSS}[1h])"),),
        5,
        "The loss of run {{ $labels.run }} is {{ $value | humanize }}, a quarter above the median of the last hour.",
    ),
    Alarm(
        "SlowSteps",
        "warning",
        (Query(f"quantile_over_time(0.5, {STEP_SECONDS}[10m]) > 1.5 * quantile_over_time(0.5, {STEP_SECONDS}[6h])"),),
        10,
        "Steps of run {{ $labels.run }} take {{ $value | humanizeDuration }}, half as much again as "
        "in the last six hours.",
    ),
    Alarm(
        "DataWait",
        "warning",
        (Query(f"{DATA_WAIT} > 0.2"),),
        15,
        "Node {{ $labels.node_rank }} of run {{ $labels.run }} waits {{ $value | humanizePercentage "
        "}} of each step for data.",
    ),
    Alarm(
        "CheckpointOld",
        "critical",
        (Query(f"{STEP} - trainway_run_checkpoint_step > 2 * trainway_run_checkpoint_every_steps"),),
        1,
        "The newest checkpoint of run {{ $labels.run }} is {{ $value }} steps old, more than twice its interval.",
    ),
    Alarm(
        "CheckpointFailed",
        "warning",
        (Query("increase(trainway_run_failed_saves_total[15m]) > 0"),),
        0,
        "A checkpoint of run {{ $labels.run }} could not be saved.",
    ),
    Alarm(
        "RunRestarts",
        "warning",
        (Query("max by (run) (trainway_run_restarts) - min by (run) (min_over_time(trainway_run_restarts[1h])) > 2"),),
        0,
        "Run {{ $labels.run }} started {{ $value }} times anew within an hour.",
    ),
)
