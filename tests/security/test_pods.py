"""Threat: a pod of a job takes over its node, or uses the role of the node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests.platforms import objects, platform_of
from tests.seams.kubernetes.pod_security import baseline_violations, restricted_violations
from tests.stacks.test_user_data import launched
from trainway.manifests.team_directory_opener import NAMESPACE as OPENER

__all__ = ["launched"]
CONTAINER: dict[str, Any] = {"name": "main", "image": "image"}
ATTEMPTS: dict[str, dict[str, Any]] = {
    "privileged": {"containers": [CONTAINER | {"securityContext": {"privileged": True}}]},
    "a privileged init container": {
        "containers": [CONTAINER],
        "initContainers": [CONTAINER | {"securityContext": {"privileged": True}}],
    },
    "a privileged ephemeral container": {
        "containers": [CONTAINER],
        "ephemeralContainers": [CONTAINER | {"securityContext": {"privileged": True}}],
    },
    "a path of the node": {"containers": [CONTAINER], "volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    "the processes of the node": {"containers": [CONTAINER], "hostPID": True},
    "the shared memory of the node": {"containers": [CONTAINER], "hostIPC": True},
    "the network of the node": {"containers": [CONTAINER], "hostNetwork": True},
    "a capability": {"containers": [CONTAINER | {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
    "a port of the node": {"containers": [CONTAINER | {"ports": [{"containerPort": 80, "hostPort": 80}]}]},
}


@pytest.mark.parametrize("attempt", sorted(ATTEMPTS))
def test_a_pod_that_would_take_over_its_node_is_refused(attempt: str) -> None:
    assert baseline_violations({"spec": {"containers": [CONTAINER]}}) == []
    assert baseline_violations({"spec": ATTEMPTS[attempt]}) != []


# A pod that satisfies `restricted`, and for each control of it one change.
SECURITY: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD_SECURITY: dict[str, Any] = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
MORE: dict[str, dict[str, Any]] = {
    "a volume of a network file system": {"volumes": [{"name": "a", "nfs": {"server": "a", "path": "/"}}]},
    "it gains privileges": {"container": {"allowPrivilegeEscalation": True}},
    "it is not said whether it gains privileges": {"container": {"allowPrivilegeEscalation": None}},
    "it can be root": {"pod": {"runAsNonRoot": None}},
    "a container can be root": {"container": {"runAsNonRoot": False}},
    "it is root": {"pod": {"runAsUser": 0}},
    "a container is root": {"container": {"runAsUser": 0}},
    "it has no seccomp profile": {"pod": {"seccompProfile": {}}},
    "a container has no seccomp profile": {"container": {"seccompProfile": {"type": "Unconfined"}}},
    "it keeps capabilities": {"container": {"capabilities": {"drop": ["NET_RAW"]}}},
    "it adds a capability of `baseline`": {"container": {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}},
}


def hardened(change: dict[str, Any], kind: str) -> dict[str, Any]:
    containers = [CONTAINER | {"securityContext": SECURITY}]
    changed = [CONTAINER | {"securityContext": SECURITY | change.get("container", {})}]
    spec = {"securityContext": POD_SECURITY | change.get("pod", {}), "volumes": change.get("volumes", [])}
    return {"spec": {**spec, "containers": containers, kind: changed}}


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("attempt", sorted(MORE))
def test_a_pod_that_is_not_restricted_is_refused(attempt: str, kind: str) -> None:
    assert restricted_violations(hardened({}, kind)) == []
    assert restricted_violations(hardened(MORE[attempt], kind)) != []


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks"])
def test_every_namespace_of_jobs_enforces_the_standard(orchestrator: str) -> None:
    for teams in ([], [{"name": "research"}, {"name": "product"}]):
        namespaces = objects(platform_of(orchestrator=orchestrator, teams=teams), "Namespace")
        labels = [each["metadata"]["labels"] for each in namespaces if each["metadata"]["name"] != OPENER]
        assert len(labels) == max(1, len(teams))
        # Pods of teams with directories of their own do not open directories as root.
        level = "restricted" if teams else "baseline"
        assert {each["pod-security.kubernetes.io/enforce"] for each in labels} == {level}


def test_pods_cannot_reach_the_metadata_service_of_any_node(launched: dict[str, dict[str, Any]]) -> None:
    for data in launched.values():
        assert data["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
