"""A run that was launched is explained by its name alone, from what its target really has."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import boto3
import pytest

from emulator import running
from tests.launch.conftest import hand_off as hand_off
from tests.launch.kubernetes import stand_in_api
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.explain import as_text, explain
from trainway.explain.finding import Finding
from trainway.explain.log_lines import logs_of_lines
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.runs.evidence import evidence_of
from trainway.launch.runs.run_directory import record_submission
from trainway.launch.sagemaker.logs import GROUP
from trainway.launch.slurm import SlurmOptions, logs, submit
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

WHY_NOT = missing()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"], gpus=8) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_run_under_slurm_is_explained_by_its_own_log(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> None:
    p5 = on_slurm(hand_off, instance_type="p5.48xlarge", mount=str(cluster.shared))
    asked = request(tmp_path, p5, run="absent", batch={"global": 8, "micro": 1})
    handle = submit(asked, CATALOGUE, SlurmOptions(environment=PurePosixPath("/fsx/envs/nobody")))
    assert list(logs(handle, follow=True))
    record_submission(tmp_path, "slurm", handle, {}, {})

    findings = explain(evidence_of(tmp_path))
    assert findings, "nothing was found"
    assert "/fsx/envs/nobody/bin/activate" in findings[0].quote.text, as_text(findings)
    assert findings[0].quote.name == "slurm.log"


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_run_that_waits_under_slurm_says_for_what(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> None:
    cluster.ask("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=Action:Replace")
    try:
        p5 = on_slurm(hand_off, instance_type="p5.48xlarge", mount=str(cluster.shared))
        handle = submit(request(tmp_path, p5, run="waits", batch={"global": 8, "micro": 1}), CATALOGUE)
        record_submission(tmp_path, "slurm", handle, {}, {})
        findings: tuple[Finding, ...] = ()

        def is_explained() -> bool:
            nonlocal findings
            findings = explain(evidence_of(tmp_path))
            return bool(findings)

        # The scheduler says why a job waits when it has looked at it, and has no reason while it looks again.
        wait_for("the reason", is_explained)
        assert findings[0].name == "slurm-waits-for-nodes", as_text(findings)
    finally:
        cluster.ask("scontrol", "update", "nodename=n1,n2", "state=resume")
        cluster.ask("scancel", "--user=root")


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[stand_in_api.Api]:
    more = [*stand_in_api.GROUPS["v1"], ("events", "Event"), ("nodes", "Node")]
    monkeypatch.setitem(stand_in_api.GROUPS, "v1", more)
    with stand_in_api.serving() as api:
        # kubectl of the environment that the tests run in.
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "kubeconfig", "atlas")))
        yield api


def test_a_run_in_kubernetes_is_explained_by_its_pods_events_and_logs(api: stand_in_api.Api, tmp_path: Path) -> None:
    handle = {"context": "mine", "namespace": "research", "kind": "TrainJob", "name": "llama-1121", "logs": "/fsx/logs"}
    record_submission(tmp_path, "kubernetes", handle, {}, {})
    name = "llama-1121-node-0-0-x7k2p"
    api.put(
        "pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "research", "uid": "1", "labels": {RUN_LABEL: "llama-1121"}},
            "spec": {"nodeName": "ip-10-0-16-7", "containers": [{"name": "node"}]},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [
                    {"name": "node", "restartCount": 0, "state": {"terminated": {"reason": "Error", "exitCode": 1}}}
                ],
            },
        },
    )
    for reason, message, about in (
        ("FailedScheduling", "0/7 nodes are available: 7 Insufficient nvidia.com/gpu.", name),
        ("Evicted", "The node was low on resource: ephemeral-storage.", "of-somebody-else"),
    ):
        api.put(
            "events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{about}.1", "namespace": "research"},
                "involvedObject": {"kind": "Pod", "name": about},
                "reason": reason,
                "message": message,
            },
        )
    api.logs[name] = (
        "[default3]:[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 3\n"
    )

    (first, *others) = explain(evidence_of(tmp_path))
    assert first.name == "gpu-memory"
    assert (first.quote.rank, first.quote.local_rank) == (3, 3)
    assert not {"too-few-gpus", "disk-pressure"} & {each.name for each in others}


def test_a_training_job_is_explained_by_its_logs_when_sagemaker_knows_it_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_submission(tmp_path, "sagemaker", {"name": "llama-1121", "region": "us-west-2"}, {}, {})
    lines = {
        "algo-1": "[default0]:ConnectionResetError: [Errno 104] Connection reset by peer",
        "algo-2": "[default5]:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5",
    }
    with running(region="us-west-2") as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        cloudwatch = boto3.client("logs", region_name="us-west-2")
        cloudwatch.create_log_group(logGroupName=GROUP)
        for host, line in lines.items():
            stream = f"llama-1121/{host}-1700000000"
            cloudwatch.create_log_stream(logGroupName=GROUP, logStreamName=stream)
            event = {"timestamp": int(time.time() * 1000), "message": line}
            cloudwatch.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=[event])
        (first, *_) = explain(evidence_of(tmp_path))
    assert first.name == "gpu-memory"
    assert (first.quote.node, first.quote.local_rank) == ("node 1", 5)


def test_lines_of_a_targets_logs_become_a_log_for_each_rank_of_each_node() -> None:
    one, two, batch = logs_of_lines(["[n1 3] a", "[n2 3] b", "[slurm] c", "[n1 3] d"])
    assert (one.node, one.local_rank, one.text) == ("n1", 3, "a\nd\n")
    assert (two.node, two.text) == ("n2", "b\n")
    assert (batch.node, batch.local_rank, batch.text) == ("slurm", None, "c\n")
    # Kubernetes tells nodes by their index, and torchrun's own lines have no rank.
    (indexed,) = logs_of_lines(["[0 -] e"])
    assert (indexed.node, indexed.local_rank) == ("node 0", None)


def test_a_run_of_a_target_of_another_version_is_refused(tmp_path: Path) -> None:
    record_submission(tmp_path, "nomad", {}, {}, {})
    with pytest.raises(UsageError, match="a run on nomad cannot be explained"):
        evidence_of(tmp_path)
