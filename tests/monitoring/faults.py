"""Faults that are planted on each orchestrator: series before and after, and the alarm that tells people.

The names and labels are those of the exporters: dcgm-exporter, kube-state-metrics, node_exporter, the exporter of
Slurm, and the exporter of a run. `None` is the end of a series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# A value by the seconds since the start of the series, and by the second of the fault. Times are since the epoch.
Values = Callable[[float, float], float | None]
ORCHESTRATORS = ("eks", "hyperpod-eks", "hyperpod-slurm")
NODE, OTHER = "ip-10-1-0-7", "ip-10-1-0-8"
RUN = 'run="llama-1125", team="research"'


def steps(before: float, after: float | None) -> Values:
    """Return values that change at the fault."""
    return lambda at, fault: before if at < fault else after


def always(value: float) -> Values:
    """Return values that do not change."""
    return lambda _at, _fault: value


def last_step(at: float, fault: float) -> float:
    """Return the time of the newest step of a run that hangs from the fault on."""
    return min(at, fault)


def ready(node: str, values: Values) -> dict[str, Values]:
    """Return the condition of a node, as kube-state-metrics has it."""
    return {f'kube_node_status_condition{{node="{node}", condition="Ready", status="true"}}': values}


def gpu(metric: str, node: str = NODE) -> str:
    """Return a series of a GPU, as DCGM's exporter has it."""
    return f'{metric}{{Hostname="{node}", gpu="3", UUID="GPU-a", device="nvidia3", modelName="NVIDIA H100 80GB HBM3"}}'


def up(job: str, node: str, values: Values) -> dict[str, Values]:
    """Return whether a scrape of an exporter succeeded."""
    return {f'up{{job="{job}", instance="{node}"}}': values}


@dataclass(frozen=True)
class Fault:
    """A fault by the alarm of its name. `demands` are the seconds for which the alarm's condition looks back.

    `series` are by orchestrator, with "" for all others. `told` is a part of the message.
    """

    alarm: str
    told: str
    series: Mapping[str, Mapping[str, Values]]
    demands: int = 0


_LOST_ON_EKS = {
    **up("dcgm", NODE, steps(1, 0)),
    **up("node", NODE, always(1)),
    **ready(NODE, always(1)),
}
_LOST_ON_HYPERPOD = {
    gpu("DCGM_FI_DEV_GPU_UTIL"): steps(97, None),
    gpu("DCGM_FI_DEV_GPU_UTIL", OTHER): always(97),
    **ready(NODE, always(1)),
    **ready(OTHER, always(1)),
    f'node_memory_MemTotal_bytes{{instance="{NODE}"}}': always(2e12),
    f'node_memory_MemTotal_bytes{{instance="{OTHER}"}}': always(2e12),
}
FAULTS: Mapping[str, Fault] = {
    "a GPU reports Xid 79": Fault(
        "XidReplace", f"GPU 3 of {NODE} reported Xid 79", {"": {gpu("DCGM_FI_DEV_XID_ERRORS"): steps(0, 79)}}
    ),
    "a node is dead": Fault(
        "NodeUnhealthy",
        f"Node {NODE} takes no jobs.",
        {
            "": {f'kube_node_status_condition{{node="{NODE}", condition="Ready", status="unknown"}}': steps(0, 1)},
            "hyperpod-slurm": {
                f'slurm_node_status{{node="{NODE}", status="allocated", partition="train"}}': steps(1, None),
                f'slurm_node_status{{node="{NODE}", status="down", partition="train"}}': lambda at, fault: (
                    1.0 if at >= fault else None
                ),
            },
        },
    ),
    "a disk is full": Fault(
        "DiskNearlyFull",
        f"Less than 10 % of / on {NODE} is free.",
        {
            "": {
                f'node_filesystem_avail_bytes{{instance="{NODE}", mountpoint="/", fstype="ext4"}}': steps(5e10, 1e9),
                f'node_filesystem_size_bytes{{instance="{NODE}", mountpoint="/", fstype="ext4"}}': always(1e11),
            }
        },
    ),
    "an exporter is lost": Fault(
        "ExporterGone",
        f"The exporter dcgm of {NODE} does not answer",
        {
            "eks": _LOST_ON_EKS,
            "hyperpod-eks": _LOST_ON_HYPERPOD,
            "hyperpod-slurm": up("dcgm", NODE, steps(1, 0)),
        },
    ),
    "the loss is not a number": Fault(
        "LossNotFinite",
        "run llama-1125 is not finite",
        {"": {f"trainway_run_loss{{{RUN}}}": steps(2.5, float("nan"))}},
    ),
    "a run hangs": Fault(
        "RunHangs",
        "Run llama-1125 has not taken a step for",
        {
            "": {
                f"trainway_run_last_step_timestamp_seconds{{{RUN}}}": last_step,
                f"trainway_run_step_seconds{{{RUN}}}": always(2),
            }
        },
        demands=600,
    ),
}


def series_of(fault: Fault, orchestrator: str) -> Mapping[str, Values]:
    """Return the series of a fault on an orchestrator."""
    return fault.series.get(orchestrator) or fault.series[""]
