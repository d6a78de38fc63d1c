"""A rendered job with --min-nodes or --spare-nodes has the node counts that torchrun, Kubernetes, and KAI require."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.kubernetes.kubelet import Pod, resolved
from tests.launch.kubernetes.platforms import pods_of, request_for, without_copies
from tests.launch.kubernetes.trainer import pod_template_of
from tests.manifests.platforms import CATALOGUE
from trainway.launch.job_file.training_program import training_command
from trainway.launch.kubernetes import Kind, KubernetesOptions, render_documents
from trainway.launch.program.program import LATE_FAILURE
from trainway.spec.errors import UsageError

KINDS: tuple[Kind, ...] = ("TrainJob", "JobSet", "PyTorchJob")
NODES = 2
by_kind = pytest.mark.parametrize("kind", KINDS)


def rendered(kind: Kind, platform: str = "kueue", **options: Any) -> list[dict[str, Any]]:
    return render_documents(request_for(platform), CATALOGUE, KubernetesOptions(kind=kind, **options))


def container_after_operator(kind: Kind, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the container of a pod after the operator of the kind has added its environment variables."""
    if kind == "TrainJob":
        template = pod_template_of(documents[-1], documents[:-1])
    else:
        (template,) = pods_of(documents[-1])
    (container,) = template["spec"]["containers"]
    if kind == "PyTorchJob":
        # https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/controller.v1/pytorch/envvar.go and elastic.go
        # (read 2026-11-27)
        spec = documents[-1]["spec"]
        elastic, replicas = spec.get("elasticPolicy"), spec["pytorchReplicaSpecs"]["Worker"]["replicas"]
        nodes = f"{elastic['minReplicas']}:{elastic['maxReplicas']}" if elastic else str(replicas)
        container["env"] = [*container["env"], {"name": "PET_NNODES", "value": nodes}]
    return dict(container)


def nnodes_of_torchrun(kind: Kind, documents: list[dict[str, Any]]) -> str:
    """Return the PET_NNODES that torchrun reads: the value in the command, or else the last one in the environment."""
    container = container_after_operator(kind, documents)
    environment = resolved(container["env"], Pod(0, "node", "node"))
    said = [word.partition("=")[2] for word in container["command"] if word.startswith("PET_NNODES=")]
    return [environment["PET_NNODES"], *said][-1]


def job_of(documents: list[dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """Return the Job specification of a JobSet, or of the runtime of a TrainJob, and the number of pods."""
    last, runtime = documents[-1], documents[-2]
    if last["kind"] == "TrainJob":
        spec = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
        assert runtime["spec"]["mlPolicy"]["numNodes"] == last["spec"]["trainer"]["numNodes"]
        return spec, last["spec"]["trainer"]["numNodes"]
    spec = last["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert spec["parallelism"] == spec["completions"]
    return spec, spec["parallelism"]


@by_kind
@pytest.mark.parametrize(
    ("options", "nnodes"),
    [
        ({}, "2"),
        ({"min_nodes": 1}, "1:2"),
        ({"spare_nodes": 1}, "2:2"),
        ({"spare_nodes": 2, "min_nodes": 1}, "1:2"),
    ],
)
def test_torchrun_gets_the_number_of_nodes_with_ranks(kind: Kind, options: dict[str, Any], nnodes: str) -> None:
    assert nnodes_of_torchrun(kind, rendered(kind, **options)) == nnodes


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_a_job_succeeds_without_pods_that_run_no_ranks(kind: Kind) -> None:
    spec, pods = job_of(rendered(kind, spare_nodes=1))
    assert (pods, spec["successPolicy"]) == (NODES + 1, {"rules": [{"succeededCount": NODES}]})
    spec, pods = job_of(rendered(kind, spare_nodes=1, min_nodes=1))
    assert (pods, spec["successPolicy"]) == (NODES + 1, {"rules": [{"succeededCount": 1}]})
    spec, pods = job_of(rendered(kind))
    assert pods == NODES and "successPolicy" not in spec


def test_a_pytorch_job_succeeds_with_its_first_pod_and_deletes_the_others() -> None:
    spec = rendered("PyTorchJob", spare_nodes=1)[-1]["spec"]
    assert (spec["elasticPolicy"]["minReplicas"], spec["elasticPolicy"]["maxReplicas"]) == (NODES, NODES + 1)
    assert spec["pytorchReplicaSpecs"]["Worker"]["replicas"] == NODES + 1
    assert spec["runPolicy"]["cleanPodPolicy"] == "Running"
    plain = rendered("PyTorchJob")[-1]["spec"]
    assert "elasticPolicy" not in plain and plain["runPolicy"]["cleanPodPolicy"] == "None"


@pytest.mark.parametrize(("options", "sets"), [({}, [(2, 1)]), ({"min_nodes": 1}, [(1, 1), (1, None)])])
def test_hyperpods_operator_has_spare_pods_beyond_the_replicas(
    options: dict[str, Any], sets: list[tuple[int, int | None]]
) -> None:
    spec = rendered("HyperPodPyTorchJob", "governance", spare_nodes=1, **options)[-1]["spec"]
    assert [(each["replicas"], each.get("spares")) for each in spec["replicaSpecs"]] == sets


@by_kind
def test_the_command_of_a_node_delays_the_report_of_a_failure(kind: Kind) -> None:
    documents = rendered(kind, spare_nodes=1)
    command = without_copies(container_after_operator(kind, documents)["command"])
    late = command.index(f"/etc/trainway/{LATE_FAILURE.name}")
    assert command[late - 1] == "python3" and command[late + 2 :] == list(training_command())
    assert documents[0]["data"][LATE_FAILURE.name] == LATE_FAILURE.read_text()
    assert LATE_FAILURE.name not in rendered(kind)[0]["data"]


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
@pytest.mark.parametrize(("options", "least"), [({"min_nodes": 1}, "1"), ({"spare_nodes": 1}, "2")])
def test_kai_gets_the_minimum_number_of_pods(kind: Kind, options: dict[str, Any], least: str) -> None:
    documents = rendered(kind, "kai", **options)
    set_of = documents[-1] if kind == "JobSet" else documents[-2]["spec"]["template"]
    annotations = set_of["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"]
    assert annotations["kai.scheduler/batch-min-member"] == least


TORCHRUN = {"command": ["torchrun", "train.py"]}
RESTARTS = {"process_restarts": 3}


@pytest.mark.parametrize(
    ("run", "life_cycle", "options", "why"),
    [
        ({"command": ["ray", "start"]}, RESTARTS, {"spare_nodes": 1}, "not started by it alone"),
        ({"command": None, "script": "python a.py; torchrun b.py"}, RESTARTS, {"spare_nodes": 1}, "not started by it"),
        (TORCHRUN, {}, {"spare_nodes": 1}, "`life_cycle.process_restarts` is 0"),
        (TORCHRUN, RESTARTS, {"min_nodes": 1}, "write `elastic: true`"),
    ],
    ids=["another launcher", "a script", "no restarts", "not elastic"],
)
def test_a_program_that_cannot_continue_is_refused(
    run: dict[str, Any], life_cycle: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    request = request_for("kueue", run=run, life_cycle=life_cycle)
    with pytest.raises(UsageError, match=why):
        render_documents(request, CATALOGUE, KubernetesOptions(kind="JobSet", **options))


@by_kind
@pytest.mark.parametrize("options", [{"spare_nodes": 1}, {"min_nodes": 1}], ids=["spare", "fewer"])
def test_the_starter_of_a_program_delays_the_report_of_a_failure(kind: Kind, options: dict[str, Any]) -> None:
    request = request_for("kueue", run=TORCHRUN | {"elastic": True}, life_cycle=RESTARTS)
    documents = render_documents(request, CATALOGUE, KubernetesOptions(kind=kind, **options))
    command = without_copies(container_after_operator(kind, documents)["command"])
    assert "--late-failure=30" in command[: command.index("--")] and LATE_FAILURE.name not in documents[0]["data"]
    assert command[command.index("--") + 1 :] == TORCHRUN["command"]
