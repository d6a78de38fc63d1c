"""How often a run starts again, what counts as a failure, what stays after the end, and who is evicted first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.kubernetes.platforms import OPERATORS, PLATFORMS, hand_off_of, platform_named, request_for, request_on
from tests.launch.kubernetes.test_rendering import RENDERED, container_of, environment_of, templates
from tests.manifests.platforms import CATALOGUE, named, platform_of
from training.config import LifeCycle
from trainway.extensions.workspace import WorkspaceRequest, define, render_workspace
from trainway.launch.kubernetes import Kind, KubernetesOptions, render_documents
from trainway.launch.program.stopping import STATUSES_FOR_GOOD
from trainway.launch.sagemaker.options import SageMakerOptions, check_options
from trainway.launch.slurm import render_script
from trainway.spec.errors import UsageError
from trainway.spec.kubernetes.node_share import share_of_node
from trainway.spec.kubernetes.system_pods import room_on
from trainway.spec.sections.orchestrator import Orchestrator

TAKEN_AWAY = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
SAID = {"restarts": 4, "process_restarts": 2}


def documents_of(platform: str, kind: Kind, **life_cycle: int) -> list[dict[str, Any]]:
    request = request_for(platform, life_cycle=life_cycle)
    return render_documents(request, CATALOGUE, KubernetesOptions(kind=kind))


def job_set_of(runtime: dict[str, Any]) -> dict[str, Any]:
    return dict(runtime["spec"]["template"]["spec"])


def job_in(job_set: dict[str, Any]) -> dict[str, Any]:
    (replicated,) = job_set["replicatedJobs"]
    return dict(replicated["template"]["spec"])


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_train_job_starts_again_as_often_as_its_job_file_says(platform: str) -> None:
    """Kubernetes counts failures of the whole life of a run. The job counts those without a new checkpoint."""
    _, runtime, job = documents_of(platform, "TrainJob", **SAID)
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] == job["metadata"]["name"]
    assert {"name": "TRAINWAY_RESTARTS", "value": "4"} in job["spec"]["trainer"]["env"]
    policy = job_set_of(runtime)["failurePolicy"]
    assert policy["maxRestarts"] == 30 * 4
    assert policy["rules"][0]["action"] == "FailJobSet"
    *_, for_good = job_in(job_set_of(runtime))["podFailurePolicy"]["rules"]
    assert for_good["action"] == "FailJob" and tuple(for_good["onExitCodes"]["values"]) == STATUSES_FOR_GOOD
    assert job_in(job_set_of(runtime))["backoffLimit"] == 0


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_pod_that_is_taken_away_is_no_failure_of_a_train_job(platform: str) -> None:
    _, runtime, _ = documents_of(platform, "TrainJob")
    made_here = named(platform_named(platform), "ClusterTrainingRuntime").values()
    for each in (runtime, *made_here):
        job = job_in(job_set_of(each))
        assert job["podFailurePolicy"]["rules"][:1] == TAKEN_AWAY["rules"]
        # Kubernetes refuses the policy with any other.
        assert job["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_platforms_own_runtimes_start_again_as_often_as_a_job_that_says_nothing(platform: str) -> None:
    for each in named(platform_named(platform), "ClusterTrainingRuntime").values():
        assert job_set_of(each)["failurePolicy"] == {"maxRestarts": LifeCycle().restarts}
        assert job_in(job_set_of(each))["backoffLimit"] == 0


def test_a_train_job_has_no_time_to_live_anywhere() -> None:
    """Trainer 2.3 makes the JobSet of a failed TrainJob again when it is deleted, and the run starts again."""
    assert "ttlSecondsAfterFinished" not in str(documents_of("kueue", "TrainJob"))
    made_here = named(platform_named("kueue"), "ClusterTrainingRuntime")
    assert "ttlSecondsAfterFinished" not in str(made_here)


def test_every_other_kind_starts_again_as_often_and_stays_as_long_as_its_job_file_says() -> None:
    said = {**SAID, "keep_hours": 2}
    pytorch = documents_of("governance", "PyTorchJob", **said)[-1]
    # The operator counts the restarts of containers, and a failure of the run is one on each of its 2 nodes.
    assert pytorch["spec"]["runPolicy"]["backoffLimit"] == 4 * 2 + 1
    assert pytorch["metadata"]["annotations"]["sagemaker.amazonaws.com/job-max-retry-count"] == "4"
    hyperpod = documents_of("governance", "HyperPodPyTorchJob", **said)[-1]["spec"]["runPolicy"]
    assert hyperpod["restartPolicy"]["maxFullJobRestarts"] == 4
    assert hyperpod["restartPolicy"]["numRestartBeforeFullJobRestart"] == 2
    assert hyperpod["jobMaxRetryCount"] == 4 * 3 + 2
    mpi = documents_of("kueue", "MPIJob", **said)[-1]["spec"]["runPolicy"]
    assert mpi["backoffLimit"] == 4
    assert {each["ttlSecondsAfterFinished"] for each in (pytorch["spec"]["runPolicy"], hyperpod, mpi)} == {7200}


@pytest.mark.parametrize("kind", ["PyTorchJob", "HyperPodPyTorchJob", "MPIJob"])
def test_a_finished_run_stays_a_week_unless_its_job_file_says_otherwise(kind: Kind) -> None:
    """HyperPod's operator deletes one at once that says nothing."""
    job = documents_of("governance", kind)[-1]
    assert job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 7 * 24 * 3600


@pytest.mark.parametrize("kind", ["TrainJob", "PyTorchJob", "MPIJob"])
def test_torchrun_starts_processes_again_as_often_as_the_job_file_says(kind: Kind) -> None:
    for template in templates(documents_of("kueue", kind, **SAID)):
        if (environment := environment_of(container_of(template))).get("PET_RDZV_BACKEND"):
            assert environment["PET_MAX_RESTARTS"] == "2"


@pytest.mark.parametrize(("platform", "kind"), RENDERED)
def test_a_training_pod_requests_what_its_node_has_left(platform: str, kind: Kind) -> None:
    """The kubelet evicts a pod first that requests nothing and uses memory."""
    node = room_on(CATALOGUE["p5.48xlarge"], Orchestrator.EKS)
    for template in templates(documents_of(platform, kind)):
        requests = container_of(template)["resources"]["requests"]
        cpu, memory = int(requests["cpu"].removesuffix("m")), int(requests["memory"].removesuffix("Mi"))
        assert 0.9 * node.cpu_millicores < cpu < node.cpu_millicores
        assert 0.9 * node.memory_mib < memory < node.memory_mib
        # What a queue has of a node is more, so that it admits the pod.
        assert cpu < 1000 * CATALOGUE["p5.48xlarge"].vcpus
        assert memory < 1024 * CATALOGUE["p5.48xlarge"].memory_gib


@pytest.mark.parametrize("orchestrator", [Orchestrator.EKS, Orchestrator.HYPERPOD_EKS])
def test_one_training_pod_fits_on_a_node_of_every_type_and_two_do_not(orchestrator: Orchestrator) -> None:
    for instance in CATALOGUE.values():
        room, (cpu, memory) = room_on(instance, orchestrator), share_of_node([instance], orchestrator)
        assert cpu <= room.cpu_millicores < 2 * cpu, instance.name
        assert memory <= room.memory_mib < 2 * memory, instance.name


def test_a_group_of_several_types_requests_what_the_smallest_has() -> None:
    types = ["m7i.8xlarge", "m7i.4xlarge"]
    group = {"name": "cpu", "instance_type": types[0], "or_types": types[1:], "count": 2, "capacity": "spot"}
    request = request_on(hand_off_of(platform_of(node_groups=[group], teams=[], kubernetes=OPERATORS)))
    (template,) = templates(render_documents(request, CATALOGUE, KubernetesOptions(kind="TrainJob")))
    (cpu, _) = share_of_node([CATALOGUE["m7i.4xlarge"]], Orchestrator.EKS)
    assert container_of(template)["resources"]["requests"]["cpu"] == f"{cpu}m"


def test_a_workspace_that_loses_its_node_has_not_failed() -> None:
    workspace = define(
        request_for("kueue").hand_off, lambda _: "image", CATALOGUE, WorkspaceRequest("ada", team="research")
    )
    *_, job = render_workspace(workspace, CATALOGUE, "token")
    assert job["spec"]["podFailurePolicy"] == TAKEN_AWAY
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_slurm_and_sagemaker_refuse_what_they_cannot_do() -> None:
    kept, again = (request_for("nobody", life_cycle={key: 4}) for key in ("keep_hours", "restarts"))
    with pytest.raises(UsageError, match=r"life_cycle\.keep_hours"):
        render_script(kept, CATALOGUE)
    for request, why in ((kept, "life_cycle.keep_hours"), (again, "not when the run")):
        with pytest.raises(UsageError, match=why):
            check_options(request, SageMakerOptions(), CATALOGUE["p5.48xlarge"])
    assert "export TRAINWAY_RESTARTS=4\n" in render_script(again, CATALOGUE)


def test_slurm_takes_the_restarts_of_processes_and_a_job_that_does_not_restart() -> None:
    script = render_script(request_for("nobody", life_cycle={"restarts": 0, "process_restarts": 5}), CATALOGUE)
    assert "export PET_MAX_RESTARTS=5\n" in script
