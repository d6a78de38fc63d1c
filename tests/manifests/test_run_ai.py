"""Run:ai finds the namespaces of the teams' projects, and no pod of a team is past its scheduler."""

from __future__ import annotations

import json
from typing import Any

import cel
import pytest

from tests.manifests.platforms import CATALOGUE, named, objects, platform_of
from trainway.manifests import cluster_manifests
from trainway.manifests.namespace import namespaces
from trainway.manifests.queue_labels import queue_labels
from trainway.spec.derived.charts import KAI, KUEUE, chart_names
from trainway.spec.platform import Platform

TEAMS = [{"name": "research"}, {"name": "product"}]
EKS = platform_of(teams=TEAMS, kubernetes={"queues": "run-ai", "gpu_devices": "operator"})
HYPERPOD = platform_of(
    orchestrator="hyperpod-eks", teams=TEAMS, kubernetes={"queues": "run-ai"}, hyperpod={"task_governance": False}
)
both = pytest.mark.parametrize("platform", [EKS, HYPERPOD], ids=["EKS", "HyperPod"])


@both
def test_each_namespace_is_that_of_its_teams_project(platform: Platform) -> None:
    assert platform.run_ai
    found = {name: each["metadata"]["labels"].get("runai/queue") for name, each in named(platform, "Namespace").items()}
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
