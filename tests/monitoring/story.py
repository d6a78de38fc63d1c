"""Six hours of a small platform as series of Prometheus, with the labels that metrics.yaml has for each metric.

Two nodes run a job of the team `research`, and one node a job of the team `guests`, which did nothing for two hours.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.monitoring.test_alarms import platform
from tests.monitoring.used_metrics import used
from tests.ports import free_port
from tests.prometheus import Prometheus, program
from trainway.manifests.namespace import namespace_of
from trainway.spec.facts.metrics import Emitter, Metric, emitters_of_metric
from trainway.spec.platform import Platform

END, HOURS, STEP_SECONDS = 1_796_083_200, 6, 120
START, IDLE_SINCE = END - HOURS * 3600, END - 2 * 3600
GPUS_OF_A_NODE = 2
# The nodes with what runs on each: the team, the user, the run, and the group and model of the node.
NODES = {
    "ip-10-0-0-1": ("research", "ada", "llama-8b", "train", "NVIDIA H100 80GB HBM3"),
    "ip-10-0-0-2": ("research", "ada", "llama-8b", "train", "NVIDIA H100 80GB HBM3"),
    "ip-10-0-0-3": ("guests", "linus", "probe", "small", "NVIDIA L4"),
}
IDLE_NODE = "ip-10-0-0-3"
# Values of labels that are of no node. A metric with several of these labels has a series of each combination.
VALUES: dict[str, tuple[str, ...]] = {
    "cluster_queue": ("guests", "research"),
    "cohort": ("atlas",),
    "collector": ("efa",),
    "condition": ("Ready",),
    "cpu": ("0",),
    "device": ("nvme0n1p1",),
    "flavor": ("train",),
    "fstype": ("ext4",),
    "host": ("ip-10-0-0-2",),
    "job_name": ("llama-8b",),
    "local_rank": ("0",),
    "mode": ("idle",),
    "model": ("llama",),
    "mountpoint": ("/",),
    "phase": ("forward", "backward", "data_wait"),
    "port": ("1",),
    "precision": ("bf16",),
    "rank": ("8",),
    "resource": ("nvidia.com/gpu",),
    "run": ("llama-8b",),
    "uid": ("1",),
    "world_size": ("16",),
}


def story_platform(orchestrator: str) -> Platform:
    """Return a platform with the nodes and teams of the story. Its node groups have GPUs of two prices."""
    found = platform(orchestrator)
    first = found.node_groups[0]
    small = {"name": "small", "instance_type": "g6.12xlarge", "count": 1}
    teams = [{"name": "research", "guarantee": {first.instance_type: 1}}, {"name": "guests"}]
    read = Platform.model_validate(
        {"name": "atlas", "region": found.region, "zones": found.zones, "orchestrator": orchestrator}
        | {"node_groups": [small], "teams": teams}
    )
    return found.model_copy(update={"node_groups": (first, *read.node_groups), "teams": read.teams})


def label_sets(metric: Metric, emitter: Emitter, name: str, shown: Platform) -> Iterator[dict[str, str]]:
    """Yield the labels of the series of a metric."""
    wanted = emitter.labels_of(name, shown.orchestrator.value)
    per_gpu = GPUS_OF_A_NODE if metric.per == "gpu" else 1
    for (rank, node), gpu in itertools.product(enumerate(NODES if metric.per != "platform" else [""]), range(per_gpu)):
        own = labels_of_node(node, gpu, shown) if node else {"instance": "controller", "partition": "train"}
        own |= {"job": emitter.name, "node_rank": str(rank), "account": own.get("account", "research")}
        if emitter.name == "run" and node == IDLE_NODE:
            continue
        if metric.per == "efa" or name.startswith("node_network"):
            own["device"] = "rdmap0s6" if metric.per == "efa" else "ens5"
        free = [label for label in sorted(wanted) if label not in own]
        for values in itertools.product(*(_values(label, name) for label in free)):
            labels = own | dict(zip(free, values, strict=True))
            yield {label: labels[label] for label in sorted(wanted)}


def labels_of_node(node: str, gpu: int, shown: Platform) -> dict[str, str]:
    """Return the labels that name a node, one of its GPUs, and the job on it."""
    team, user, run, group, model = NODES[node]
    (namespace,) = {namespace_of(shown, each) for each in shown.teams if each.name == team}
    rank = [each for each, held in NODES.items() if held[2] == run].index(node)
    of_gpu = {"gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}", "device": f"nvidia{gpu}", "modelName": model}
    of_pod = {"namespace": namespace, "pod": f"{run}-node-0-{rank}-x7k2p", "container": "node"}
    qos = "borrowed" if team == "guests" else team
    of_job = {"account": team, "user": user, "job_id": str(len(run)), "qos": qos, "partition": group}
    own = {"instance": node, "Hostname": node, "node": node, **of_gpu, **of_pod, **of_job}
    return own | {"job_name": run}


def _values(label: str, metric: str) -> tuple[str, ...]:
    if label == "status":
        return {"slurm_node_status": ("allocated",), "kube_node_status_condition": ("true",)}.get(metric, ("active",))
    return ("Running",) if metric == "kube_pod_status_phase" and label == "phase" else VALUES[label]


def value(name: str, metric: Metric, labels: Mapping[str, str], at: int) -> float:
    """Return the value of a series at a time: a wave within what the unit allows, and a growing one of a counter."""
    node = labels.get("Hostname", "")
    if name == "DCGM_FI_DEV_GPU_UTIL":
        return 0.0 if node == IDLE_NODE and at >= IDLE_SINCE else 90.0 + 5 * _wave(str(labels), at)
    if name == "slurm_job_gpus":
        return float(GPUS_OF_A_NODE)
    if name.endswith("timestamp_seconds"):
        return at - 300 - at % 1800
    if metric.unit == "state":
        return 1.0
    top = {"percent": 90, "ratio": 0.5, "bytes": 4e11, "celsius": 60, "watts": 600, "megahertz": 1900, "mebibytes": 7e4}
    if metric.kind == "counter":
        # A mean of 20 GB a second, or of half a second of idle time.
        rate = {"bytes": 2e10, "seconds": 0.5}.get(metric.unit, 0.01)
        return rate * ((at - START) + 100 * _wave(str(labels), at))
    size = 2.0 if name.endswith(("total", "total_bytes", "size_bytes", "quota", "steps")) else 1.0
    return top.get(metric.unit, 10) * size * (1 + 0.05 * _wave(f"{name}{sorted(labels.items())}", at))


def _wave(name: str, at: int) -> float:
    return math.sin(at / 1500 + zlib.crc32(name.encode()) % 7)


def open_metrics(shown: Platform) -> str:
    """Return the story of a platform in the text format of OpenMetrics, with times."""
    lines = []
    for name in sorted(used(shown.orchestrator.value)):
        (emitter,) = emitters_of_metric(name)
        if emitter.store != "prometheus":
            continue
        metric = emitter.metrics[name]
        # OpenMetrics wants the name of a counter's sample to end in _total.
        lines.append(f"# TYPE {name} unknown")
        for labels in label_sets(metric, emitter, name, shown):
            text = ",".join(f'{label}="{each}"' for label, each in labels.items())
            times = range(START, END + 1, STEP_SECONDS)
            lines += [f"{name}{{{text}}} {value(name, metric, labels, at)!r} {at}" for at in times]
    return "\n".join([*lines, "# EOF", ""])


@contextlib.contextmanager
def told(shown: Platform, directory: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that has the story."""
    text, store, port = directory / "story.txt", directory / "tsdb", free_port()
    text.write_text(open_metrics(shown), encoding="utf-8")
    made: Any = subprocess.run(
        [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", text, store], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (directory / "prometheus.yml").write_text("{}")
    command = [program("prometheus"), f"--config.file={directory / 'prometheus.yml'}", "--log.level=error"]
    command += [f"--storage.tsdb.path={store}", "--storage.tsdb.retention.time=100y"]
    with subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"]) as running:
        try:
            yield Prometheus(port)
        finally:
            running.terminate()
