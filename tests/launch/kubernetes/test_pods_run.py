"""The pods that are rendered really run the job, and end with the loss that it has on one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import write_job
from tests.launch.kubernetes.kubelet import Network, Pod, network
from tests.launch.kubernetes.platforms import OPERATORS, ROOT, hand_off_of, pods_of, request_on
from tests.launch.kubernetes.trainer import pod_template_of
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.launch.kubernetes import Kind, KubernetesOptions, render_documents
from trainway.launch.program.lost_nodes import node_counts

GROUPS = [{"name": "train", "instance_type": "m7i.2xlarge", "count": 3}]
PLATFORM = platform_of(node_groups=GROUPS, teams=[], kubernetes=OPERATORS)
STEPS = 60

can_make_namespaces = (
    subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], capture_output=True).returncode == 0
)
pytestmark = [
    pytest.mark.skipif(
        not can_make_namespaces and "CI" not in os.environ, reason="this machine lets nobody make a user namespace"
    ),
]


@pytest.fixture(scope="module")
def fsx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system, with a corpus on it."""
    root = tmp_path_factory.mktemp("fsx")
    options = ["--corpus", "python-stdlib", "--limit-bytes", "400000", "--vocabulary", "512"]
    command = [sys.executable, "-m", "training.prepare", *options, "--out", str(root / "corpus/small")]
    subprocess.run(command, check=True, cwd=ROOT)
    return root


def job_keys(checkpoints: str, train: str) -> dict[str, Any]:
    return {
        "data": {"train": train, "sequence_length": 64},
        "batch": {"global": 4, "micro": 2},
        "precision": "fp32",
        "steps": STEPS,
        "checkpoint": {"every": 20, "location": checkpoints},
    }


@pytest.fixture(scope="module")
def local_loss(fsx: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the same job on this machine, two processes."""
    directory = tmp_path_factory.mktemp("local")
    job = write_job(directory, **job_keys(str(directory / "checkpoints"), str(fsx / "corpus/small")))
    command = [sys.executable, "-m", "trainway.cli", "launch", str(job), f"--run={directory / 'run'}"]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    return loss_of(directory / "run")


def events(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def loss_of(run: Path) -> str:
    last = events(run)[-1]
    assert (last["event"], last["step"]) == ("end", STEPS)
    return str(last["loss_hex"])


class Submitted:
    """A rendered run of two nodes and its spare nodes. The test starts the pods."""

    def __init__(self, kind: Kind, fsx: Path, name: str, **options: Any) -> None:
        file_system = hand_off_of(PLATFORM).mounted.model_copy(update={"mount_path": str(fsx)})
        hand_off = hand_off_of(PLATFORM, file_system=file_system)
        keys = job_keys(f"fsx:/checkpoints/{name}", "fsx:/corpus/small")
        self.request = request_on(hand_off, name=name, model="tiny", **keys)
        asked = KubernetesOptions(kind=kind, **options)
        config_map, *runtimes, self.job = render_documents(self.request, CATALOGUE, asked)
        self.config_maps = {config_map["metadata"]["name"]: config_map["data"]}
        self.run = Path(self.request.directory)
        name, pods = self.request.run, range(node_counts(self.request, asked).started)
        if kind == "TrainJob":
            self.template = pod_template_of(self.job, runtimes)
            domain = f"{name}.training.svc.cluster.local"
            self.pods = tuple(Pod(i, f"{name}-node-0-{i}-abcde", f"{name}-node-0-{i}", domain) for i in pods)
        else:
            (self.template,) = pods_of(self.job)
            self.pods = tuple(Pod(i, f"{name}-worker-{i}", f"{name}-worker-{i}") for i in pods)


Cluster = Callable[[Submitted], Network]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    stack: list[Any] = []

    def make(submitted: Submitted) -> Network:
        stack.append(network(tmp_path, submitted.pods))
        return stack[-1].__enter__()

    yield make
    for each in stack:
        each.__exit__(None, None, None)


# The test of a node that is taken away trains on two pods as well.
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ("TrainJob", "PyTorchJob"))
def test_two_pods_end_with_the_loss_of_one_machine(kind: Kind, fsx: Path, local_loss: str, cluster: Cluster) -> None:
    submitted = Submitted(kind, fsx, kind.lower())
    nodes = cluster(submitted)
    processes = [nodes.run(pod, submitted.template, submitted.config_maps) for pod in submitted.pods]
    for process in processes:
        assert process.wait(timeout=1800) == 0, said_by(nodes)
    assert loss_of(submitted.run) == local_loss
    # Every node's ranks are logged below its pod's name.
    logged = {path.name for path in (submitted.run / "logs").iterdir()}
    assert logged == {pod.name for pod in submitted.pods}


@pytest.mark.exhaustive
def test_a_node_that_is_taken_away_is_waited_for_and_the_loss_is_the_same(
    fsx: Path, local_loss: str, cluster: Cluster
) -> None:
    """Its pod is told to end, and all ranks save; the other node must not count as finished."""
    submitted = Submitted("TrainJob", fsx, "evicted")
    nodes = cluster(submitted)
    first, second = (nodes.run(pod, submitted.template, submitted.config_maps) for pod in submitted.pods)
    until(lambda: any(event["event"] == "step" and event["step"] >= 5 for event in events(submitted.run)), nodes)
    # As the kubelet does: to the container's first process, which is torchrun.
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait(timeout=1800) != 0
    assert first.poll() is None, said_by(nodes)
    replaced = nodes.run(submitted.pods[1], submitted.template, submitted.config_maps)
    assert (first.wait(timeout=1800), replaced.wait(timeout=1800)) == (0, 0), said_by(nodes)
    assert loss_of(submitted.run) == local_loss
    starts = [event["resumed_from"] for event in events(submitted.run) if event["event"] == "start"]
    assert len(starts) == 2 and 5 <= starts[1] < STEPS


@pytest.mark.exhaustive
def test_a_run_that_can_do_with_one_node_goes_on_with_one(fsx: Path, local_loss: str, cluster: Cluster) -> None:
    submitted = Submitted("TrainJob", fsx, "elastic", min_nodes=1)
    nodes = cluster(submitted)
    first, second = (nodes.run(pod, submitted.template, submitted.config_maps) for pod in submitted.pods)
    until(lambda: any(event["event"] == "step" and event["step"] >= 5 for event in events(submitted.run)), nodes)
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait(timeout=1800) != 0
    assert first.wait(timeout=1800) == 0, said_by(nodes)
    starts = [event for event in events(submitted.run) if event["event"] == "start"]
    assert [event["world_size"] for event in starts] == [2, 1]
    # One rank adds up in another order than two.
    alone, both = (float.fromhex(loss) for loss in (loss_of(submitted.run), local_loss))
    assert abs(alone - both) < 1e-3


@pytest.mark.exhaustive
def test_a_spare_node_takes_the_place_of_a_lost_one(fsx: Path, local_loss: str, cluster: Cluster) -> None:
    submitted = Submitted("TrainJob", fsx, "spare", spare_nodes=1)
    nodes = cluster(submitted)
    processes = {pod: nodes.run(pod, submitted.template, submitted.config_maps) for pod in submitted.pods}
    until(lambda: any(event["event"] == "step" and event["step"] >= 5 for event in events(submitted.run)), nodes)
    # The first node hosts the rendezvous, so the test kills another node. No new node replaces it.
    lost = next(pod for pod in submitted.pods[1:] if had_ranks(submitted, pod))
    os.killpg(processes[lost].pid, signal.SIGKILL)
    first, spare = (processes[pod] for pod in submitted.pods if pod != lost)
    assert (first.wait(timeout=1800), spare.wait(timeout=1800)) == (0, 0), said_by(nodes)
    assert loss_of(submitted.run) == local_loss
    starts = [event["world_size"] for event in events(submitted.run) if event["event"] == "start"]
    assert starts == [2, 2]


@pytest.mark.exhaustive
def test_a_spare_node_does_not_fail_a_run_that_succeeds(fsx: Path, local_loss: str, cluster: Cluster) -> None:
    """The spare node reports no failure until Kubernetes deletes its pod."""
    submitted = Submitted("TrainJob", fsx, "unused", spare_nodes=1)
    nodes = cluster(submitted)
    processes = {pod: nodes.run(pod, submitted.template, submitted.config_maps) for pod in submitted.pods}
    until(lambda: any(event["event"] == "step" and event["step"] >= 5 for event in events(submitted.run)), nodes)
    spare = next(pod for pod in submitted.pods if not had_ranks(submitted, pod))
    with_ranks = [process for pod, process in processes.items() if pod != spare]
    assert [process.wait(timeout=1800) for process in with_ranks] == [0, 0], said_by(nodes)
    assert loss_of(submitted.run) == local_loss
    # torchrun on the spare node fails, because the rendezvous closes.
    waiting = processes[spare].pid
    children = Path(f"/proc/{waiting}/task/{waiting}/children")
    wait_for("torchrun of the spare node has failed", lambda: not children.read_text())
    assert processes[spare].poll() is None, said_by(nodes)
    os.kill(processes[spare].pid, signal.SIGTERM)
    assert processes[spare].wait(timeout=60) == 1


def had_ranks(submitted: Submitted, pod: Pod) -> bool:
    return any((submitted.run / "logs" / pod.name).glob("*/attempt_*"))


def until(true: Callable[[], bool], nodes: Network, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, said_by(nodes)
        assert all(process.poll() is None for process in nodes.started), said_by(nodes)
        time.sleep(0.05)


def said_by(nodes: Network) -> str:
    return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(nodes.directory.glob("*.log")))
