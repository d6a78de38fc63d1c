"""With the real kubectl: what is asked of the API server, and what is made of its answers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.launch.kubernetes.platforms import RUN, request_for
from tests.launch.kubernetes.stand_in_api import NOW_SECONDS, Api, serving
from tests.manifests.platforms import CATALOGUE
from trainway.launch.kubernetes import TARGET, KubernetesOptions, render_documents, submit
from trainway.launch.kubernetes.context import eks_arn, find_context, on_platform
from trainway.launch.kubernetes.kubectl import failure
from trainway.launch.node.node_of_run import LAUNCH
from trainway.launch.program.request import Request
from trainway.launch.target.protocol import Handle, Phase, State
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines
from trainway.spec.errors import UsageError


@pytest.fixture(scope="module")
def request_() -> Request:
    return request_for("kueue")


@contextmanager
def cluster_of(request: Request, directory: Path) -> Iterator[Api]:
    """The platform's cluster, which the kubeconfig knows."""
    with pytest.MonkeyPatch.context() as patch, serving() as api:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        patch.setenv("KUBECONFIG", str(api.kubeconfig(directory / "kubeconfig", eks_arn(request.hand_off))))
        patch.setenv("KUBECACHEDIR", str(directory / "cache"))
        yield api


@pytest.fixture
def api(tmp_path: Path, request_: Request) -> Iterator[Api]:
    with cluster_of(request_, tmp_path) as api:
        yield api


def submitted(request: Request) -> dict[str, str]:
    return submit(request, render_documents(request, CATALOGUE, KubernetesOptions()))


@pytest.fixture(scope="module")
def submission(request_: Request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Handle, dict[Any, Any]]:
    """Submit one run for all tests, because a submission calls kubectl many times. Return its API server's objects."""
    with cluster_of(request_, tmp_path_factory.mktemp("submitted")) as api:
        return submitted(request_), api.objects


def pod(index: int, *, uid: str = "", node: str | None = None, **status: Any) -> dict[str, Any]:
    labels = {"trainway.dev/run": RUN, "batch.kubernetes.io/job-completion-index": str(index)}
    name = f"{RUN}-node-0-{index}-x{uid}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "research", "uid": uid or name, "labels": labels},
        "spec": {"containers": [{"name": "node"}], **({"nodeName": node} if node else {})},
        "status": status,
    }


def running(index: int, **more: Any) -> dict[str, Any]:
    statuses = [{"name": "node", "restartCount": 0, "state": {"running": {}}}]
    return pod(index, node=f"ip-10-0-0-{index}", phase="Running", containerStatuses=statuses, **more)


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def test_all_is_looked_at_before_anything_is_applied(api: Api, request_: Request) -> None:
    assert TARGET.find is not None
    handle = submitted(request_)
    assert TARGET.find(request_, KubernetesOptions()) == handle
    assert TARGET.find(replace(request_, run="another"), KubernetesOptions()) is None
    assert handle == {
        "context": "mine",
        "namespace": "research",
        "kind": "TrainJob",
        "name": RUN,
        "logs": f"/fsx/runs/{RUN}/logs",
    }
    patches = [each for each in api.asked if each.startswith("PATCH")]
    # The ConfigMap and the runtime, then the job, then who owns the first two.
    assert ["dryRun=All" in each for each in patches] == [True, True, False, False, False, False, False]
    assert all("fieldManager=trainway" in each for each in patches[:5])
    assert set(api.objects) == {("configmaps", RUN), ("trainingruntimes", RUN), ("trainjobs", RUN)}
    for plural in ("configmaps", "trainingruntimes"):
        (owner,) = api.objects[plural, RUN]["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": RUN,
            "uid": f"uid-{RUN}",
        }


def test_a_runtime_that_is_refused_leaves_nothing_behind(api: Api, request_: Request) -> None:
    api.refusals["TrainingRuntime"] = "must have a trainer"
    with pytest.raises(UsageError, match="must have a trainer"):
        submitted(request_)
    assert not api.objects


def test_a_job_that_is_refused_leaves_nothing_behind(api: Api, request_: Request) -> None:
    api.refusals["TrainJob"] = "exceeded quota: guard-rails"
    with pytest.raises(UsageError, match="exceeded quota: guard-rails") as caught:
        submitted(request_)
    assert "Traceback" not in str(caught.value)
    assert not api.objects


def test_another_cluster_gets_nothing(api: Api, request_: Request, tmp_path: Path) -> None:
    api.kubeconfig(tmp_path / "kubeconfig", "arn:aws:eks:us-west-2:111122223333:cluster/another", context="current")
    with pytest.raises(UsageError, match="no context of the kubeconfig is for arn:aws:eks:us-west-2") as caught:
        submitted(request_)
    name = request_.hand_off.cluster.name
    assert f"aws eks update-kubeconfig --name {name} --region us-west-2" in str(caught.value)
    assert not api.asked


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        (
            'error: resource mapping not found for name: "small" namespace: "research" from "STDIN": no matches for '
            'kind "PyTorchJob" in version "kubeflow.org/v1"\nensure CRDs are installed first',
            "use --kind TrainJob",
        ),
        (
            'Error from server (Forbidden): trainjobs.trainer.kubeflow.org "small" is forbidden: User '
            '"arn:aws:iam::111122223333:user/ada" cannot patch resource "trainjobs" in API group '
            '"trainer.kubeflow.org" in the namespace "research"',
            "docs/teams.md",
        ),
        ("error: You must be logged in to the server (Unauthorized)", "aws sts get-caller-identity"),
        (
            "Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255",
            "whether this shell has credentials",
        ),
        ("Unable to connect to the server: dial tcp 10.0.1.5:443: i/o timeout", "inside the VPC only"),
        (
            "Error in configuration: context was not found for specified context: arn:aws:eks:us-west-2:1:cluster/a",
            "aws eks update-kubeconfig",
        ),
        ("", "kubectl get events"),
    ],
)
def test_what_kubectl_says_comes_with_what_helps(said: str, helps: str) -> None:
    """Its own words: https://github.com/kubernetes/kubectl/blob/master/pkg/cmd/util/helpers.go (read 2026-11-21)."""
    error = str(failure("it cannot be submitted", said))
    assert helps in error.splitlines()[-1]
    assert "ensure CRDs" not in error


def test_hyperpods_cluster_is_found_by_the_eks_cluster_below_it() -> None:
    hand_off = request_for("governance").hand_off
    assert hand_off.cluster.arn.startswith("arn:aws:sagemaker:")
    assert eks_arn(hand_off) == f"arn:aws:eks:us-west-2:111122223333:cluster/{hand_off.platform}"


def test_without_kubectl_the_error_says_where_to_get_it(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="kubectl is not on PATH"):
        submitted(request_)


def test_an_endpoint_that_does_not_answer_is_explained(
    api: Api, handle: Handle, request_: Request, tmp_path: Path
) -> None:
    api.url = "http://127.0.0.1:1"
    api.kubeconfig(tmp_path / "kubeconfig", eks_arn(request_.hand_off))
    with pytest.raises(UsageError, match="inside the VPC only"):
        TARGET.state(handle)


@pytest.fixture
def handle(api: Api, submission: tuple[Handle, dict[Any, Any]]) -> Handle:
    handle, objects = submission
    assert not api.objects
    api.objects |= deepcopy(objects)
    return handle


def set_conditions(api: Api, *conditions: dict[str, str]) -> None:
    api.objects["trainjobs", RUN]["status"] = {"conditions": list(conditions)}


def test_a_run_goes_from_the_queue_to_its_end(api: Api, handle: Handle) -> None:
    set_conditions(api, condition("Suspended", reason="Suspended"))
    waits = condition("QuotaReserved", "False", "Pending", "couldn't assign flavors: insufficient unused quota")
    labels = {"kueue.x-k8s.io/job-uid": f"uid-{RUN}"}
    workload = {"metadata": {"name": "w", "labels": labels}, "status": {"conditions": [waits]}}
    api.put("workloads", {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **workload})
    found = TARGET.state(handle)
    assert (found.phase, "insufficient unused quota" in found.reason) == (Phase.QUEUED, True)

    waits |= {"status": "True"}
    workload["status"] = {"conditions": [waits, condition("Admitted")]}
    api.put("workloads", {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **workload})
    set_conditions(api, condition("Suspended", "False", "Resumed"))
    assert TARGET.state(handle).phase is Phase.STARTING

    unschedulable = condition("PodScheduled", "False", "Unschedulable", "0/4 nodes: 4 Insufficient nvidia.com/gpu")
    api.put("pods", pod(0, phase="Pending", conditions=[unschedulable]), running(1))
    found = TARGET.state(handle)
    assert (found.phase, found.reason.split(":")[0]) == (Phase.QUEUED, "Unschedulable")

    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "r/x@sha256:1: not found"}}
    pulling = {"name": "node", "restartCount": 0, "image": "r/x@sha256:1", "state": waiting}
    api.put("pods", pod(0, phase="Pending", containerStatuses=[pulling], node="ip-10-0-0-0"))
    found = TARGET.state(handle)
    assert found == on_both_nodes(Phase.STARTING, found.reason)
    assert "cannot pull the image r/x@sha256:1: r/x@sha256:1: not found. Its GPUs wait" in found.reason

    api.put("pods", running(0))
    assert TARGET.state(handle) == on_both_nodes(Phase.RUNNING)

    set_conditions(api, condition("Complete", reason="AllJobsCompleted", message="jobset completed successfully"))
    assert TARGET.state(handle).phase is Phase.SUCCEEDED
    set_conditions(api, condition("Failed", reason="FailedJobs", message="jobset failed"))
    found = TARGET.state(handle)
    assert (found.phase, found.reason) == (Phase.FAILED, "FailedJobs: jobset failed")


def on_both_nodes(phase: Phase, reason: str = "") -> State:
    return State(phase, reason, ("ip-10-0-0-0", "ip-10-0-0-1"))


def test_a_stopped_run_has_the_time_to_save_and_then_is_gone(api: Api, handle: Handle) -> None:
    api.put("pods", running(0), running(1))
    TARGET.stop(handle)
    found = TARGET.state(handle)
    assert (found.phase, found.reason) == (Phase.STOPPED, "it saves a checkpoint and ends")
    # Until its last pod has ended, when the API server takes the object away.
    del api.objects["trainjobs", RUN]
    assert TARGET.state(handle).phase is Phase.GONE
    TARGET.stop(handle)


def test_a_run_that_has_ended_can_be_launched_again(api: Api, handle: Handle, request_: Request) -> None:
    """With another job file, though the ConfigMap that has the first can never be changed."""
    set_conditions(api, condition("Failed", reason="FailedJobs"))
    assert submitted(request_) == handle
    assert "status" not in api.objects["trainjobs", RUN]
    deleted = [each.split("?")[0].split("/")[-2:] for each in api.asked if each.startswith("DELETE")]
    assert deleted[-3:] == [["trainjobs", RUN], ["configmaps", RUN], ["trainingruntimes", RUN]]


@pytest.mark.usefixtures("handle")
def test_a_starter_knows_the_launches_of_a_run_from_each_other(api: Api, request_: Request) -> None:
    """The training job of Trainway has no starter, and counts its restarts by launch."""
    launches = [api.objects["configmaps", RUN]["data"][LAUNCH]]
    for started_by in (None, (), ()):
        set_conditions(api, condition("Failed", reason="FailedJobs"))
        submitted(replace(request_, program=replace(request_.program, started_by=started_by)))
        launches.append(api.objects["configmaps", RUN]["data"][LAUNCH])
    assert len(set(launches)) == 4 and all(launches)


def test_a_run_that_has_not_ended_is_not_launched_again(api: Api, handle: Handle, request_: Request) -> None:
    api.put("pods", running(0), running(1))
    with pytest.raises(UsageError, match="it is running"):
        submitted(request_)
    assert TARGET.state(handle).phase is Phase.RUNNING


def test_a_run_that_somebody_suspended_is_stopped(api: Api, handle: Handle) -> None:
    set_conditions(api, condition("Suspended", reason="Suspended"))
    assert TARGET.state(handle).phase is Phase.STOPPED


def test_lines_have_their_node_and_their_rank(api: Api, handle: Handle) -> None:
    api.put("pods", running(1), running(0))
    api.logs |= {
        f"{RUN}-node-0-0-x": "[default0]:step=1/12 loss=6.2\n[default3]:rank 3 says\nW1121 torchrun says\n",
        f"{RUN}-node-0-1-x": "[default0]:of the other node\n",
    }
    assert list(TARGET.logs(handle, follow=False)) == [
        "[0 0] step=1/12 loss=6.2",
        "[0 3] rank 3 says",
        "[0 -] W1121 torchrun says",
        "[1 0] of the other node",
    ]


def test_lines_of_all_pods_are_in_the_order_of_their_times_and_can_be_chosen(api: Api, handle: Handle) -> None:
    api.put("pods", running(1), running(0))
    api.logs |= {
        f"{RUN}-node-0-0-x": "@1 [default0]:a\n@70 [default0]:d\n@80 [default1]:e\n",
        f"{RUN}-node-0-1-x": "@2 [default0]:b\n@3 [default0]:c\n@90 [default0]:f\n",
    }

    def read(wanted: WantedLines) -> list[str]:
        return list(TARGET.logs(handle, follow=False, wanted=wanted))

    assert read(EVERY_LINE) == ["[0 0] a", "[1 0] b", "[1 0] c", "[0 0] d", "[0 1] e", "[1 0] f"]
    assert read(WantedLines(since_seconds=NOW_SECONDS - 60)) == ["[0 0] d", "[0 1] e", "[1 0] f"]
    assert read(WantedLines(tail=1)) == ["[0 1] e", "[1 0] f"]
    assert read(WantedLines(node="0", rank=0)) == ["[0 0] a", "[0 0] d"]
    with pytest.raises(UsageError, match=rf"--attempt\n.*newest attempt\n.*/fsx/runs/{RUN}/logs"):
        read(WantedLines(attempt=1))


def test_followed_lines_end_with_the_run_and_pods_that_came_later_are_among_them(api: Api, handle: Handle) -> None:
    api.put("pods", running(0))
    api.logs |= {f"{RUN}-node-0-0-x": "[default0]:first\n", f"{RUN}-node-0-1-x": "[default0]:second\n"}
    lines = TARGET.logs(handle, follow=True)
    assert next(lines) == "[0 0] first"
    api.put("pods", running(1))
    assert next(lines) == "[1 0] second"
    set_conditions(api, condition("Complete"))
    assert list(lines) == []


def test_where_the_lines_of_pods_that_are_gone_are(handle: Handle) -> None:
    with pytest.raises(UsageError, match=f"/fsx/runs/{RUN}/logs"):
        list(TARGET.logs(handle, follow=False))


def test_a_port_of_a_pod_is_forwarded_by_kubectl(api: Api, handle: Handle) -> None:
    api.put("pods", running(0), running(1))
    assert TARGET.forward is not None
    command = TARGET.forward(handle, 1, 6006, 6007)
    assert command is not None and command[0] == "kubectl"
    wanted = ("port-forward", "--address=127.0.0.1", f"pod/{RUN}-node-0-1-x", "6007:6006")
    assert tuple(command[-4:]) == wanted
    # kubectl itself takes the words, and finds the pod, which then has no such port in this API server.
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode and "unknown" not in said.stderr and "error parsing" not in said.stderr, said.stderr
    with pytest.raises(UsageError, match="it has 0, 1"):
        TARGET.forward(handle, 7, 6006, 6007)


def test_a_shell_is_opened_where_it_is_allowed(api: Api, handle: Handle) -> None:
    api.put("pods", running(0), running(1))
    command = TARGET.shell(handle, 1)
    assert command[:1] == ("kubectl",) and f"{RUN}-node-0-1-x" in command and command[-2:] == ("--", "bash")
    with pytest.raises(UsageError, match="it has 0, 1"):
        TARGET.shell(handle, 7)
    api.may_open_a_shell = False
    with pytest.raises(UsageError, match="members of a team have none"):
        TARGET.shell(handle, 1)


@pytest.mark.parametrize("printed", ["", "[]", "null", '{"contexts": [{"name": "a"}]}', '{"contexts": 1}'])
def test_a_kubectl_that_prints_no_kubeconfig_is_explained(
    printed: str, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a colleague's machine, `status --all` shows the run all the same: it asks for the context of each platform."""
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho '{printed}'\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(UsageError, match="prints no kubeconfig"):
        find_context(request_.hand_off)
    assert on_platform(request_.hand_off, None)["context"] == eks_arn(request_.hand_off)
