"""A launch uses a kind whose operator the platform has, and on HyperPod one that AWS documents to be queued."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.kubernetes.platforms import HYPERPOD_GROUPS, TEAMS, hand_off_of, request_on
from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.launch.kubernetes import Kind, KubernetesOptions, render_documents
from trainway.manifests.job_kinds import job_kinds, launch_kinds
from trainway.spec.errors import UsageError
from trainway.spec.platform import Platform

KEYS: dict[Kind, tuple[str, str]] = {
    "TrainJob": ("kubernetes", "trainer"),
    "PyTorchJob": ("kubernetes", "pytorch_operator"),
    "HyperPodPyTorchJob": ("hyperpod", "training_operator"),
    "MPIJob": ("kubernetes", "mpi_operator"),
    "JobSet": ("kubernetes", "trainer"),
    "RayJob": ("kubernetes", "ray_operator"),
}


def hyperpod(**changes: Any) -> Platform:
    return platform_of(**{"orchestrator": "hyperpod-eks", "node_groups": HYPERPOD_GROUPS, "teams": TEAMS, **changes})


def launched(platform: Platform, kind: Kind | None = None) -> dict[str, Any]:
    program = {"run": {"command": ["python", "train.py"]}} if kind == "RayJob" else {}
    request = request_on(hand_off_of(platform), **program)
    return render_documents(request, CATALOGUE, KubernetesOptions(kind=kind))[-1]


def test_the_default_is_a_train_job_on_eks_and_a_pytorch_job_on_hyperpod() -> None:
    assert launched(platform_of(teams=TEAMS))["kind"] == "TrainJob"
    assert launched(hyperpod())["kind"] == "PyTorchJob"
    assert launched(hyperpod(teams=[]))["kind"] == "PyTorchJob"


def test_hyperpods_operator_alone_is_the_default_where_kubeflows_is_turned_off() -> None:
    platform = hyperpod(kubernetes={"pytorch_operator": False}, hyperpod={"training_operator": True})
    assert launched(platform)["kind"] == "HyperPodPyTorchJob"


def test_task_governance_is_given_no_train_job_unless_the_launch_names_it() -> None:
    platform = hyperpod(kubernetes={"pytorch_operator": False})
    with pytest.raises(UsageError, match=r"set kubernetes\.pytorch_operator to true"):
        launched(platform)
    assert launched(platform, "TrainJob")["kind"] == "TrainJob"
    ungoverned = hyperpod(kubernetes={"pytorch_operator": False}, teams=[])
    assert launched(ungoverned)["kind"] == "TrainJob"


@pytest.mark.parametrize("kind", list(KEYS))
def test_a_kind_is_refused_by_the_key_that_installs_its_operator(kind: Kind) -> None:
    section, key = KEYS[kind]
    sections: dict[str, dict[str, bool]] = {"kubernetes": {}, "hyperpod": {}}
    sections[section][key] = False
    with pytest.raises(UsageError, match=f"set {section}.{key} to true in the platform file and deploy"):
        launched(hyperpod(**sections), kind)
    sections[section][key] = True
    platform = hyperpod(**sections)
    assert launched(platform, kind)["kind"] == kind
    plural = {"HyperPodPyTorchJob": "hyperpodpytorchjobs"}.get(kind, f"{kind.lower()}s")
    assert plural in {name for _, name in job_kinds(platform)}, "members have a right to what they can launch"


def test_slurm_has_no_kinds() -> None:
    groups = [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}]
    assert launch_kinds(platform_of(orchestrator="hyperpod-slurm", node_groups=groups, teams=[])) == ()


@pytest.mark.parametrize("teams", [TEAMS, []])
def test_hyperpods_auto_resume_finds_the_job_in_a_namespace_of_its_own(teams: list[dict[str, Any]]) -> None:
    """It looks at PyTorchJobs in namespaces that begin with `hyperpod`."""
    job = launched(hyperpod(teams=teams))
    assert job["metadata"]["namespace"].startswith("hyperpod")
    assert job["metadata"]["annotations"]["sagemaker.amazonaws.com/enable-job-auto-resume"] == "true"
    on_eks = launched(platform_of(teams=teams, kubernetes={"pytorch_operator": True}), "PyTorchJob")
    assert "sagemaker.amazonaws.com/enable-job-auto-resume" not in on_eks["metadata"]["annotations"]
