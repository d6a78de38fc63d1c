"""The alarms on GPUs, from DCGM's fields: errors, throttling, and what is allocated and not used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from trainway.monitoring.alarm import Alarm, Query, Threshold
from trainway.spec.facts.xids import load_xids

# A GPU that runs kernels has a higher utilization, whatever it waits for: kernels of NCCL spin while they wait.
BUSY_PERCENT = 50
IDLE_PERCENT = 5
IDLE_MINUTES = 30
# Longer than a night's maintenance, and short enough to save most of a weekend.
UNUSED_HOURS = 4

# What NVIDIA's device plugin takes for errors of a program, on a GPU that is well.
# https://github.com/NVIDIA/k8s-device-plugin/blob/main/internal/rm/health.go (read 2026-11-21)
PROGRAM_XIDS = frozenset({13, 31, 43})

GPU = "DCGM_FI_DEV_GPU_UTIL"
XID = "DCGM_FI_DEV_XID_ERRORS"
CLOCK = "DCGM_FI_DEV_SM_CLOCK"
POWER, HEAT = "DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_THERMAL_VIOLATION"
NVLINK = ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL")
# The labels that name one GPU.
ONE = ("Hostname", "gpu", "UUID")
_BY_GPU = f"by ({', '.join(ONE)})"
_NAMED = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"


def gpu_alarms() -> Iterator[Alarm]:
    """Yield the alarms on GPUs."""
    yield from _gpu_errors()
    yield from _gpu_faults()
    yield from _gpu_throttling()
    yield from _gpu_utilization()


def _gpu_errors() -> Iterator[Alarm]:
    xids: tuple[tuple[str, Literal["critical", "warning"], str, str], ...] = (
        ("XidReplace", "critical", _xids("cause", "replace"), ": replace the node."),
        ("XidReboot", "critical", _xids("cause", "reboot"), ": reboot the node."),
        # The last Xid stays until the driver is loaded anew, and a program's mistake is over when it is reported.
        (
            "XidProgram",
            "warning",
            f"{_last_is(PROGRAM_XIDS)} and changes({XID}[15m]) > 0",
            ", as a rule for what a program did.",
        ),
        ("XidMemory", "warning", _xids("symptom"), ": its memory wears out."),
        ("XidUnknown", "warning", f"({XID} > 0) unless {_last_is(load_xids())}", ": look it up."),
    )
    for name, severity, series, meaning in xids:
        yield Alarm(
            name,
            severity,
            (Query(f"max {_BY_GPU} ({series}) > 0"),),
            0,
            f"{_NAMED} reported Xid {{{{ $value }}}}{meaning}",
        )
    yield Alarm(
        "GpuRowsExhausted",
        "critical",
        (Threshold("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Maximum", ">", 0, by=ONE),),
        0,
        f"{_NAMED} has no spare rows of memory left: replace the node.",
    )


def _gpu_faults() -> Iterator[Alarm]:
    # DCGM's own health check takes any of the errors below for a fault:
    # https://github.com/NVIDIA/DCGM/blob/master/modules/health/DcgmHealthWatch.cpp (read 2026-12-01)
    yield Alarm(
        "GpuEccErrors",
        "critical",
        (Threshold("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Maximum", ">", 0, by=ONE),),
        0,
        f"{_NAMED} has {{{{ $value }}}} memory errors that ECC could not correct since its driver was loaded: "
        "reboot the node.",
    )
    links = " or ".join(f"increase({each}[15m]) > 0" for each in NVLINK)
    yield Alarm(
        "NvlinkErrors",
        "warning",
        (Query(f"max {_BY_GPU} ({links})"),),
        0,
        f"NVLinks of {_NAMED} sent packets again, or had to be set up again.",
    )
    here = f"count by (Hostname) (count by (Hostname, UUID) ({GPU}))"
    yield Alarm(
        "GpuLost",
        "critical",
        (Query(f"max_over_time(({here})[1d:5m]) - {here} > 0"),),
        5,
        "{{ $value }} GPUs of {{ $labels.Hostname }} are gone: replace the node.",
        because="An exporter that starts finds GPUs one after another.",
    )


def _gpu_throttling() -> Iterator[Alarm]:
    # DCGM's own health check takes any time of it for a fault. It is no fault while a node cools down after a job.
    yield Alarm(
        "GpuThermalViolation",
        "warning",
        (Query(f"max {_BY_GPU} (increase({HEAT}[5m])) > 0"),),
        5,
        f"{_NAMED} has been throttled for 5 minutes, because it is hot.",
        because="A peak of seconds is no fault.",
    )
    # At its power limit, each GPU of a job is throttled as long as the others. DCGM counts microseconds or nanoseconds,
    # depending on its version, so the alarm compares GPUs.
    limited = f"(max {_BY_GPU} (rate({POWER}[5m])) and on ({', '.join(ONE)}) {GPU} > {BUSY_PERCENT})"
    yield Alarm(
        "GpuPowerViolation",
        "warning",
        (Query(f"{limited} > on (Hostname) group_left 4 * quantile by (Hostname) (0.5, {limited})"),),
        10,
        f"{_NAMED} has too little power: it is throttled four times as long as half of the busy GPUs of the node.",
        because="GPUs are in different phases of a job for minutes.",
    )


def _gpu_utilization() -> Iterator[Alarm]:
    idle = f"max_over_time({GPU}%s[{IDLE_MINUTES}m]) < {IDLE_PERCENT}"
    allocated = 'label_replace(slurm_node_status{status="allocated"}, "Hostname", "$1", "node", "(.*)")'
    yield Alarm(
        "GpuIdle",
        "warning",
        (
            Query(
                f"count by (Hostname) ({idle % ''}) and on (Hostname) max by (Hostname) ({allocated}) > 0",
            ),
            Query(f"count by (Hostname, namespace, pod) ({idle % _POD}) > 0"),
        ),
        5,
        f"{{{{ $value }}}} GPUs of {{{{ $labels.Hostname }}}} are allocated and idle for {IDLE_MINUTES} minutes.",
        because="A job that has just got the node loads its program first.",
    )
    unused = f"max by (Hostname) (max_over_time({GPU}[{UNUSED_HOURS}h])) < {IDLE_PERCENT}"
    # A node that has just joined has not been unused for hours.
    there = f"max by (Hostname) ({GPU} offset {UNUSED_HOURS}h)"
    yield Alarm(
        "NodesUnused",
        "warning",
        (Query(f"count(({unused}) and on (Hostname) {there}) > 0"),),
        0,
        f"The GPUs of {{{{ $value }}}} nodes have done nothing for {UNUSED_HOURS} hours, and the nodes are paid for.",
    )
    # Kernels of NCCL keep a GPU busy while it waits for a slower one, whose clock shows that it is throttled.
    yield Alarm(
        "Straggler",
        "warning",
        (
            Query(
                f"{CLOCK} / on (modelName) group_left quantile by (modelName) "
                f"(0.5, {CLOCK} and {GPU} > {BUSY_PERCENT}) < 0.8 and {GPU} > {BUSY_PERCENT}"
            ),
        ),
        10,
        "The clock of GPU {{ $labels.gpu }} of {{ $labels.Hostname }} is {{ $value | "
        "humanizePercentage }} of that of other busy GPUs.",
        because="GPUs are in different phases of a job for minutes.",
    )


# dcgm-exporter names the pod that a GPU is allocated to.
_POD = '{pod!=""}'


def _xids(level: str, eks: str | None = None) -> str:
    """Return the series whose last Xid is one of a level, and of EKS's action if one is given.

    EKS has no action for a cause that it does not know. The node must be replaced then.
    """
    xids = {number: xid for number, xid in load_xids().items() if xid.level == level and number not in PROGRAM_XIDS}
    return _last_is(number for number, xid in xids.items() if eks is None or (xid.eks or "replace") == eks)


def _last_is(numbers: Iterable[int]) -> str:
    """Return the series whose last Xid is one of these."""
    return "(" + " or ".join(f"({XID} == {number})" for number in sorted(numbers)) + ")"
