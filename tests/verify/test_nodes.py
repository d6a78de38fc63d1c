"""The probe is launched as a job is, and its results come back: on real Slurm, and through the real kubectl."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tests.launch.conftest import hand_off as hand_off
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.kubernetes.stand_in_api import GROUPS, Api, serving
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.verify.test_checks import SWEEP, nccl, node
from trainway.launch import kubernetes, slurm
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.kubernetes.context import eks_arn
from trainway.launch.kubernetes.process import DIRECTORY
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.target.known import AnyTarget
from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.handoff import HandOff
from trainway.verify import ProbeRequest, Result, Status, probe_point, probe_request, verify_nodes
from trainway.verify.probe_job import probe_source

WHY_NOT = missing()


def asked(hand_off: HandOff, nodes: int, run: str = "verify-1122") -> ProbeRequest:
    point = probe_point(nodes)
    request = Request(point.program, run, hand_off, IMAGE, allocate(point.program, hand_off, CATALOGUE, "train"))
    return probe_request(request, max_bytes=2 * 2**20)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"]) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        # What a job would be told as well, to be quick where no GPUs are.
        patch.setenv("TRAINWAY_PROBE_FILE_MIB", "2")
        patch.setenv("OMP_NUM_THREADS", "1")
        yield running


def verified(
    request: ProbeRequest, environment: str = sys.prefix, target: AnyTarget = slurm.TARGET
) -> Mapping[str, list[Result]]:
    options = slurm.SlurmOptions(environment=PurePosixPath(environment))
    by_check: dict[str, list[Result]] = {}
    for result in verify_nodes(request, CATALOGUE, target, options):
        by_check.setdefault(result.check, []).append(result)
    return by_check


@pytest.mark.exhaustive
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_two_nodes_under_slurm_are_proved(cluster: Machines, hand_off: HandOff) -> None:
    results = verified(asked(on_slurm(hand_off, mount=str(cluster.shared)), 2))
    (answered,) = results["nodes"]
    assert answered.sentence == "2 of 2 nodes answered"
    assert [each.node for each in results["file system"]] == ["n1", "n2"]
    assert {each.status for each in (*results["file system"], *results["clock"])} == {Status.OK}
    # What two processes of one machine reach is less than the network of the nodes that they stand for.
    (all_reduce,) = results["all-reduce"]
    assert "GB/s at" in all_reduce.sentence
    assert "probe" not in results


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_probe_that_could_not_run_says_why(cluster: Machines, hand_off: HandOff) -> None:
    results = verified(asked(on_slurm(hand_off, mount=str(cluster.shared)), 2, "absent"), "/fsx/envs/nobody")
    (why,) = results["probe"]
    assert why.status is Status.FAILED
    assert "/fsx/envs/nobody" in why.sentence
    assert results["nodes"][0].sentence == "0 of 2 nodes answered"


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_probe_that_is_not_waited_for_is_stopped(cluster: Machines, hand_off: HandOff) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[str]:
        raise KeyboardInterrupt

    # There is nowhere to run, and whoever waits gives up.
    cluster.ask("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=test")
    probe = asked(on_slurm(hand_off, mount=str(cluster.shared)), 2, "given-up")
    with pytest.raises(KeyboardInterrupt):
        verified(probe, target=replace(slurm.TARGET, logs=interrupted))
    wait_for("it is cancelled", lambda: not cluster.ask("squeue", "--noheader", "--name=given-up").strip())
    cluster.ask("scontrol", "update", "nodename=n1,n2", "state=resume")


def test_a_pod_of_kubernetes_is_given_the_probe_as_it_is() -> None:
    request = asked(hand_off_of(platform_named("nobody")), 2)
    (*_, runtime, job) = render_documents(request, CATALOGUE, KubernetesOptions())
    trainer = job["spec"]["trainer"]
    assert trainer["command"] == list(request.on_nodes(DIRECTORY).command)
    assert trainer["numNodes"] == 2
    job_set = runtime["spec"]["template"]["spec"]
    (container,) = job_set["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["vpc.amazonaws.com/efa"] == 32
    # A probe that fails has found something: it does not start again.
    assert job_set["failurePolicy"] == {"maxRestarts": 0}
    told = {each["name"]: each.get("value") for each in trainer["env"]}
    assert told["NCCL_DEBUG"] == "INFO"
    assert told["TRAINWAY_PROBE_DIRECTORY"] == "/fsx/runs/verify-1122"
    # Kubernetes would put a variable in the place of $(NAME), and make $( of $$(.
    assert "$(" not in probe_source()


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setitem(GROUPS, "v1", [*GROUPS["v1"], ("events", "Event"), ("nodes", "Node")])
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with serving() as api:
        config = api.kubeconfig(tmp_path / "kubeconfig", eks_arn(hand_off_of(platform_named("nobody"))))
        monkeypatch.setenv("KUBECONFIG", str(config))
        monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "cache"))
        yield api


def run_pods(api: Api, run: str, over: threading.Event) -> None:
    """What the controllers do once the job is there: two pods run to their end, and so does the job."""
    while ("trainjobs", run) not in api.objects:
        if over.wait(0.05):
            return
    for index in range(2):
        name, hostname = f"{run}-node-0-{index}-x7k2p", f"{run}-node-0-{index}"
        api.logs[name] = node(hostname, index) + nccl(hostname, "Socket/0" if index else "Libfabric/0/GDRDMA")
        ended = {"name": "node", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}
        labels = {RUN_LABEL: run, "batch.kubernetes.io/job-completion-index": str(index)}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "training", "uid": name, "labels": labels},
            "spec": {"hostname": hostname, "nodeName": f"ip-10-0-16-{index}", "containers": [{"name": "node"}]},
            "status": {"phase": "Succeeded", "containerStatuses": [ended]},
        }
        api.put("pods", pod)
    api.logs[f"{run}-node-0-0-x7k2p"] += SWEEP
    api.objects["trainjobs", run]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}


def test_a_node_of_kubernetes_is_called_by_its_own_name(api: Api) -> None:
    for index, (group, efa) in enumerate([("train", 32), ("train", 31), ("system", 0)]):
        metadata = {"name": f"ip-10-0-16-{index}", "labels": {NODES_LABEL: group}}
        allocatable = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": str(efa), "cpu": "190"}
        api.put(
            "nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}
        )
    request, over = asked(hand_off_of(platform_named("nobody")), 2), threading.Event()
    controllers = threading.Thread(target=run_pods, args=(api, request.run, over))
    controllers.start()
    try:
        results = verify_nodes(request, CATALOGUE, kubernetes.TARGET, KubernetesOptions(kind="TrainJob"))
    finally:
        over.set()
        controllers.join()
    assert [(each.check, each.node) for each in results if each.status is Status.FAILED] == [
        ("allocatable", "ip-10-0-16-1"),
        ("nccl", "ip-10-0-16-1"),
    ]
    assert {each.node for each in results} == {None, "ip-10-0-16-0", "ip-10-0-16-1"}
