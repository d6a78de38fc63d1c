"""The alarms of a platform. docs/alarms.md has a section for each, which says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainway.monitoring.alarm import (
    FILE_SYSTEM,
    NAT_GATEWAY,
    QUEUED_RULE,
    QUOTA_CLASS,
    RULE,
    Alarm,
    Query,
    Threshold,
)
from trainway.monitoring.events import events_queue
from trainway.monitoring.gpu_alarms import GPU, IDLE_MINUTES, IDLE_PERCENT, gpu_alarms
from trainway.monitoring.node_alarms import node_alarms
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
# The share of a step in which a node waits for data.
DATA_WAIT = f'trainway_run_phase_seconds{{phase="data_wait"}} / ignoring (phase) {STEP_SECONDS}'
ACCELERATORS = "nvidia.com/gpu|aws.amazon.com/neuron.*"


def alarms(platform: Platform, catalogue: Catalogue) -> tuple[Alarm, ...]:
    """Return the alarms of a platform, each with the condition whose metrics the platform has."""
    found, collection = [], collection_of(platform, catalogue)
    for alarm in every_alarm(platform):
        for condition in alarm.conditions:
            if collection.has(*condition.metrics):
                found.append(replace(alarm, conditions=(condition,)))
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
            because="It is one period of the metric.",
        )
    queue = events_queue(platform.name)
    yield Alarm(
        "EventsNotTold",
        "warning",
        (Threshold(QUEUED, "Minimum", ">", 0, {"QueueName": queue}),),
        UNTOLD_MINUTES,
        f"An event of AWS that people should have been told of has been in the queue {queue} for {UNTOLD_MINUTES} "
        "minutes.",
        because="The runbook tries three times.",
    )
    yield from _FROM_SERVICES
    yield from node_alarms(platform)
    yield from gpu_alarms()
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
            because="A checkpoint is written before an older one is deleted, which takes minutes.",
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
            5,
            "What was written an hour ago is not in the bucket yet, and goes with the file system.",
            because="It is one period of the metric.",
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
        because="A checkpoint is written before an older one is deleted, which takes minutes.",
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
        because="It is one period of the metric.",
    ),
    Alarm(
        "DeadLetterFailed",
        "warning",
        (Threshold("InvocationsFailedToBeSentToDlq", "Sum", ">", 0, {"RuleName": QUEUED_RULE}),),
        5,
        "EventBridge could deliver an event neither to the topic of the alarms nor to the queue, and dropped it.",
        because="It is one period of the metric.",
    ),
    # https://docs.aws.amazon.com/vpc/latest/userguide/metrics-dimensions-nat-gateway.html (read 2026-12-01)
    Alarm(
        "NatPorts",
        "warning",
        (Threshold("ErrorPortAllocation", "Sum", ">", 0, {"NatGatewayId": NAT_GATEWAY}),),
        5,
        "The NAT gateway has no free port for new connections to one destination: nodes open too many.",
        because="It is one period of the metric.",
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
        because="It is one period of the metric.",
    ),
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
        because="A queue starts a large job only after others have ended.",
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
        0,
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
        because="A loss jumps for single steps.",
    ),
    Alarm(
        "SlowSteps",
        "warning",
        (Query(f"quantile_over_time(0.5, {STEP_SECONDS}[10m]) > 1.5 * quantile_over_time(0.5, {STEP_SECONDS}[6h])"),),
        5,
        "Steps of run {{ $labels.run }} take {{ $value | humanizeDuration }}, half as much again as "
        "in the last six hours.",
        because="An evaluation between steps takes minutes.",
    ),
    Alarm(
        "DataWait",
        "warning",
        (Query(f"{DATA_WAIT} > 0.2"),),
        10,
        "Node {{ $labels.node_rank }} of run {{ $labels.run }} waits {{ $value | humanizePercentage "
        "}} of each step for data.",
        because="A worker that starts again reads slowly for minutes.",
    ),
    Alarm(
        "CheckpointOld",
        "critical",
        (Query(f"{STEP} - trainway_run_checkpoint_step > 2 * trainway_run_checkpoint_every_steps"),),
        0,
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
