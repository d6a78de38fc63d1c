"""What each of the people may do, by the rules that Kubernetes would go by."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests.platforms import objects, platform_of
from trainway.manifests.namespace import namespace_of
from trainway.spec.platform import Platform
from trainway.spec.teams.groups import VIEWERS, members_group

READ = ("get", "list", "watch")
TEAMS = [{"name": "research"}, {"name": "product"}]


def rules_of(platform: Platform, group: str, namespace: str | None) -> list[dict[str, list[str]]]:
    """The rules that are bound to a group in one namespace; None for those that are bound in all of them."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    rules = []
    for binding in objects(platform, kind):
        if binding["metadata"].get("namespace") != namespace:
            continue
        if {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group} in binding["subjects"]:
            (role,) = [
                each
                for each in objects(platform, binding["roleRef"]["kind"])
                if each["metadata"].get("namespace") == namespace
                and each["metadata"]["name"] == binding["roleRef"]["name"]
            ]
            rules += role["rules"]
    return rules


def may(platform: Platform, group: str, verb: str, resource: str, namespace: str | None = None) -> bool:
    """Whether the group may; `resource` is written `group/resource` or `group/resource/subresource`."""
    api_group, _, name = resource.partition("/")
    rules = rules_of(platform, group, None) + (rules_of(platform, group, namespace) if namespace else [])
    return any(
        verb in rule["verbs"]
        and api_group in rule["apiGroups"]
        and (name in rule["resources"] or "*" in rule["resources"])
        for rule in rules
    )


def member_may(verb: str, resource: str, **changes: Any) -> bool:
    platform = platform_of(**changes)
    return may(platform, members_group("research"), verb, resource, namespace_of(platform, platform.teams[0]))


@pytest.mark.parametrize("verb", [*READ, "create", "update", "patch", "delete"])
@pytest.mark.parametrize("resource", ["trainer.kubeflow.org/trainjobs", "batch/jobs", "/configmaps", "/secrets"])
def test_member_launches_and_deletes_jobs_and_what_they_need(verb: str, resource: str) -> None:
    assert member_may(verb, resource)


@pytest.mark.parametrize(
    "resource",
    [
        "/pods",
        "/pods/log",
        "/events",
        "/persistentvolumeclaims",
        "/resourcequotas",
        "/nodes",
        "jobset.x-k8s.io/jobsets",
        "kueue.x-k8s.io/clusterqueues",
        "kueue.x-k8s.io/localqueues",
        "kueue.x-k8s.io/workloads",
        "kai.scheduler/topologies",
        "scheduling.k8s.io/priorityclasses",
        "scheduling.run.ai/podgroups",
        "scheduling.run.ai/queues",
        "trainer.kubeflow.org/clustertrainingruntimes",
    ],
)
def test_member_sees_what_tells_why_a_job_waits_or_fails(resource: str) -> None:
    assert all(member_may(verb, resource) for verb in READ)


def test_member_deletes_a_pod_that_hangs() -> None:
    assert member_may("delete", "/pods")


def test_member_reaches_a_workspace() -> None:
    for resource in ("batch/jobs", "/secrets", "/pods/portforward"):
        assert all(member_may(verb, resource) for verb in ("create", "get"))


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("create", "/pods"),
        ("create", "/pods/exec"),
        ("get", "/pods/exec"),
        ("patch", "/pods/ephemeralcontainers"),
        ("create", "/serviceaccounts/token"),
        ("patch", "/resourcequotas"),
        ("delete", "/limitranges"),
        ("get", "/nodes/proxy"),
        ("patch", "/namespaces"),
        ("create", "rbac.authorization.k8s.io/rolebindings"),
        ("get", "rbac.authorization.k8s.io/roles"),
        ("patch", "kueue.x-k8s.io/workloads"),
        ("create", "kueue.x-k8s.io/localqueues"),
        ("patch", "kueue.x-k8s.io/clusterqueues"),
        ("create", "scheduling.run.ai/podgroups"),
        ("patch", "scheduling.run.ai/queues"),
        ("delete", "admissionregistration.k8s.io/validatingadmissionpolicies"),
        ("create", "trainer.kubeflow.org/clustertrainingruntimes"),
    ],
)
def test_member_goes_past_no_queue_and_gives_no_rights(verb: str, resource: str) -> None:
    assert not member_may(verb, resource)


def test_member_of_one_team_has_nothing_in_the_namespace_of_another() -> None:
    platform = platform_of(teams=TEAMS)
    for resource in ("/pods", "/secrets", "trainer.kubeflow.org/trainjobs"):
        assert may(platform, members_group("product"), "get", resource, "product")
        assert not may(platform, members_group("research"), "get", resource, "product")


def test_jobs_of_operators_are_for_platforms_that_have_them() -> None:
    mpi, hyperpod = "kubeflow.org/mpijobs", "sagemaker.amazonaws.com/hyperpodpytorchjobs"
    pytorch = "kubeflow.org/pytorchjobs"
    assert not member_may("create", pytorch)
    assert member_may("create", pytorch, orchestrator="hyperpod-eks")
    assert not member_may("create", mpi)
    assert member_may("create", mpi, kubernetes={"mpi_operator": True})
    assert not member_may("create", hyperpod)
    assert not member_may("create", hyperpod, orchestrator="hyperpod-eks")
    assert member_may("create", hyperpod, orchestrator="hyperpod-eks", hyperpod={"training_operator": True})


def test_members_start_spaces_and_ask_for_connections_where_spaces_are() -> None:
    spaces, connections = "workspace.jupyter.org/workspaces", "connection.workspace.jupyter.org/workspaceconnections"
    has = {"orchestrator": "hyperpod-eks", "hyperpod": {"spaces": True}}
    assert all(member_may(verb, spaces, **has) for verb in ("create", "patch", "delete", "watch"))
    assert member_may("create", connections, **has) and not member_may("get", connections, **has)
    assert member_may("get", "workspace.jupyter.org/workspacetemplates", **has)
    assert not member_may("create", "workspace.jupyter.org/workspacetemplates", **has)
    for without in ({"orchestrator": "hyperpod-eks"}, {}):
        assert not member_may("create", spaces, **without) and not member_may("create", connections, **without)


@pytest.mark.parametrize("teams", [[], TEAMS], ids=["no teams", "two teams"])
def test_viewer_sees_everything_that_is_not_a_secret(teams: list[dict[str, str]]) -> None:
    platform = platform_of(teams=teams)
    seen = ["/pods", "/pods/log", "/nodes", "/configmaps", "/events", "batch/jobs", "trainer.kubeflow.org/trainjobs"]
    seen += ["kai.scheduler/topologies", "scheduling.run.ai/queues", "scheduling.run.ai/podgroups"]
    seen += ["kueue.x-k8s.io/workloads", "rbac.authorization.k8s.io/roles", "storage.k8s.io/storageclasses"]
    for resource in seen:
        assert all(may(platform, VIEWERS, verb, resource) for verb in READ), resource
    for resource in ("/secrets", "/pods/exec", "/pods/attach", "/pods/portforward", "/pods/proxy", "/nodes/proxy"):
        assert not any(may(platform, VIEWERS, verb, resource) for verb in READ), resource


def test_viewer_changes_nothing() -> None:
    for rule in rules_of(platform_of(), VIEWERS, None):
        assert set(rule["verbs"]) == set(READ)
        assert "" not in rule["apiGroups"] or "*" not in rule["resources"]


def test_what_is_bound_in_the_whole_cluster_only_reads() -> None:
    platform = platform_of(teams=TEAMS)
    for role in objects(platform, "ClusterRole"):
        assert all(set(rule["verbs"]) <= set(READ) for rule in role["rules"])


def test_platform_without_teams_has_no_members() -> None:
    platform = platform_of(teams=[])
    assert not objects(platform, "Role")
    assert [each["metadata"]["name"] for each in objects(platform, "ClusterRoleBinding")] == ["trainway-viewer"]
