"""Run:ai finds the namespaces of the teams' projects, and no pod of a team is past its scheduler."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from tests.manifests.platforms import CATALOGUE, named, objects, platform_of, platforms
from trainway.manifests import cluster_manifests
from trainway.manifests.namespace import namespaces
from trainway.manifests.queue_labels import queue_labels
from trainway.manifests.run_ai_projects import run_ai_projects
from trainway.manifests.team_directory_opener import NAMESPACE as OPENER
from trainway.spec.kubernetes.charts import KAI, KUEUE, chart_names
from trainway.spec.kubernetes.rules import run_ai_counts_gpus
from trainway.spec.platform import Platform
from trainway.spec.sections.kubernetes import Kubernetes

TEAMS = [{"name": "research"}, {"name": "product"}]
EKS = platform_of(teams=TEAMS, kubernetes={"queues": "run-ai", "gpu_devices": "operator"})
HYPERPOD = platform_of(
    orchestrator="hyperpod-eks", teams=TEAMS, kubernetes={"queues": "run-ai"}, hyperpod={"task_governance": False}
)
SECTION = {"control_plane": "https://acme.run.ai", "secret": "run-ai"}
INSTALLED = platform_of(teams=TEAMS, kubernetes={"run_ai": SECTION, "gpu_devices": "operator"})
both = pytest.mark.parametrize("platform", [EKS, HYPERPOD, INSTALLED], ids=["EKS", "HyperPod", "installed"])


@both
def test_each_namespace_is_that_of_its_teams_project(platform: Platform) -> None:
    assert platform.run_ai
    found = {name: each["metadata"]["labels"].get("runai/queue") for name, each in named(platform, "Namespace").items()}
    assert found.pop(OPENER) is None
    assert found == dict(zip(namespaces(platform), ["research", "product"], strict=True))


@both
def test_no_other_scheduler_is_installed_or_named(platform: Platform) -> None:
    assert not {KUEUE, KAI} & set(chart_names(platform, CATALOGUE))
    for name, manifest in cluster_manifests(platform, CATALOGUE).items():
        if manifest.get("kind") not in ("ClusterRole", "Role"):
            assert not {"kueue", "kai"} & set(json.dumps(manifest).replace(".", " ").replace("-", " ").split()), name
    (runtime,) = objects(platform, "ClusterTrainingRuntime")[:1]
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["template"]["spec"]["schedulerName"] == "runai-scheduler"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"teams": [], "kubernetes": {"queues": "run-ai"}},
        {"orchestrator": "hyperpod-eks", "kubernetes": {"queues": "run-ai"}},
    ],
    ids=["Kueue", "no teams", "task governance"],
)
def test_a_platform_that_run_ai_does_not_share_has_nothing_of_it(changes: dict[str, Any]) -> None:
    platform = platform_of(**changes)
    assert not platform.run_ai
    for name, manifest in cluster_manifests(platform, CATALOGUE).items():
        assert "runai" not in json.dumps(manifest), name


def admits(platform: Platform, policy: str, subject: dict[str, Any], before: dict[str, Any] | None = None) -> bool:
    """Whether the policy lets the object into the namespace of the first team."""
    import cel

    request = {"operation": "UPDATE" if before else "CREATE", "namespace": namespaces(platform)[0]}
    (validation,) = named(platform, "ValidatingAdmissionPolicy")[policy]["spec"]["validations"]
    known = {"object": subject, "oldObject": before, "request": request}
    return cel.evaluate(validation["expression"], known) is True


def labeled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


@both
def test_what_is_in_a_teams_namespace_names_no_project_of_another_team(platform: Platform) -> None:
    (key,) = queue_labels(platform)
    assert admits(platform, "trainway-queue", labeled(**{key: "research"}))
    assert admits(platform, "trainway-queue", labeled(app="x"))
    assert admits(platform, "trainway-queue", {"metadata": {}})
    assert not admits(platform, "trainway-queue", labeled(**{key: "product"}))
    assert not admits(platform, "trainway-queue", labeled(**{key: "product"}), before=labeled(**{key: "research"}))
    assert admits(platform, "trainway-queue", labeled(**{key: "product"}), before=labeled(**{key: "product"}))


@both
def test_no_pod_of_a_team_goes_past_the_scheduler(platform: Platform) -> None:
    assert admits(platform, "trainway-scheduler", {"spec": {"schedulerName": "runai-scheduler"}})
    assert not admits(platform, "trainway-scheduler", {"spec": {"schedulerName": "default-scheduler"}})
    named_node = {"schedulerName": "runai-scheduler", "nodeName": "ip-10-0-0-1.ec2.internal"}
    assert not admits(platform, "trainway-scheduler", {"spec": named_node})


def test_the_chart_is_told_of_the_control_plane_and_of_no_secrets_value() -> None:
    values = cluster_manifests(INSTALLED, CATALOGUE)["values/runai-cluster"]
    assert values["controlPlane"]["url"] == "acme.run.ai"
    assert "clientSecret" not in values["controlPlane"] and "global" not in values
    own = platform_of(teams=TEAMS, kubernetes={"run_ai": SECTION | {"registry": "registry.example.com/run-ai"}})
    image = cluster_manifests(own, CATALOGUE)["values/runai-cluster"]["global"]["image"]
    assert image == {"registry": "registry.example.com/run-ai"}


@pytest.mark.parametrize("platform", [EKS, HYPERPOD, platform_of()], ids=["EKS", "HyperPod", "Kueue"])
def test_nothing_is_said_to_a_control_plane_without_the_section(platform: Platform) -> None:
    assert not [name for name in cluster_manifests(platform, CATALOGUE) if "run_ai/" in name or "runai" in name]


@pytest.mark.parametrize(("priority", "weight"), [("low", 2), ("normal", 10), ("high", 20)])
def test_idle_gpus_are_shared_by_the_weights_of_the_teams(priority: str, weight: int) -> None:
    team = {"name": "research", "priority": priority}
    told = run_ai_projects(platform_of(teams=[team], kubernetes={"run_ai": SECTION}), CATALOGUE)
    assert told and told["projects"][0]["quotas"]["train"] == {"deserved": 0, "limit": -1, "overQuotaWeight": weight}


@given(platforms())
def test_no_more_gpus_are_promised_than_the_department_has(platform: Platform) -> None:
    changed = platform.model_copy(update={"kubernetes": Kubernetes.model_validate({"run_ai": SECTION})})
    told = run_ai_projects(changed, CATALOGUE)
    assert told is not None
    for pool, quota in told["department"]["quotas"].items():
        promised = sum(project["quotas"][pool]["deserved"] for project in told["projects"])
        assert 0 <= promised <= quota["deserved"]
    assert [pool["name"] for pool in told["node_pools"]] == list(told["department"]["quotas"])


def test_a_guarantee_is_of_nodes_whose_gpus_run_ai_counts() -> None:
    teams = [{"name": "research", "guarantee": {"p5.48xlarge": 1, "m7i.8xlarge": 1}}]
    [(key, reason, _)] = run_ai_counts_gpus(platform_of(teams=teams, kubernetes={"run_ai": SECTION}), CATALOGUE)
    assert key == ("teams", 0, "guarantee", "m7i.8xlarge") and "no NVIDIA GPUs" in reason
    assert not list(run_ai_counts_gpus(platform_of(teams=teams, kubernetes={"queues": "run-ai"}), CATALOGUE))
