"""RBAC roles in the cluster for the groups to which EKS access entries assign people.

https://docs.aws.amazon.com/eks/latest/userguide/create-k8s-group-access-entry.html (read 2026-11-21)
https://kubernetes.io/docs/concepts/security/rbac-good-practices/ (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.job_kinds import job_kinds
from trainway.manifests.namespace import namespace_of
from trainway.manifests.spaces import space_permissions
from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team
from trainway.spec.teams.groups import VIEWERS, members_group

API = "rbac.authorization.k8s.io/v1"
MEMBER = "trainway-member"
VIEWER = "trainway-viewer"
READ = ["get", "list", "watch"]
WRITE = [*READ, "create", "update", "patch", "delete"]
# All readable resources of the core group, which has the secrets: never `*`, nor `nodes/proxy`, which runs commands in
# pods.
CORE = [
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "pods/log",
    "resourcequotas",
    "serviceaccounts",
    "services",
]
# Groups without secrets, which viewers may read completely.
OPEN_GROUPS = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "jobset.x-k8s.io",
    "kai.scheduler",
    "kubeflow.org",
    "kueue.x-k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "policy",
    "ray.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "sagemaker.amazonaws.com",
    "scheduling.k8s.io",
    "scheduling.run.ai",
    "storage.k8s.io",
    "trainer.kubeflow.org",
    "visibility.kueue.x-k8s.io",
    "workspace.jupyter.org",
]
# What members may read outside their namespace: nodes, and objects that their jobs refer to.
COMMON = {
    "": ["namespaces", "nodes", "persistentvolumes"],
    "kai.scheduler": ["topologies"],
    "kueue.x-k8s.io": ["clusterqueues", "cohorts", "resourceflavors", "topologies", "workloadpriorityclasses"],
    "metrics.k8s.io": ["nodes"],
    "resource.k8s.io": ["deviceclasses", "resourceslices"],
    "scheduling.k8s.io": ["priorityclasses"],
    "scheduling.run.ai": ["queues"],
    "trainer.kubeflow.org": ["clustertrainingruntimes"],
    "workspace.jupyter.org": ["workspaceaccessstrategies", "workspacetemplates"],
}


def viewers() -> list[dict[str, Any]]:
    """Return the role of viewers, which reads everything except secrets."""
    rules = [_rule([""], CORE, READ), _rule(OPEN_GROUPS, ["*"], READ)]
    return [_cluster_role(VIEWER, rules), _cluster_binding(VIEWER, [VIEWERS])]


def members(platform: Platform) -> list[dict[str, Any]]:
    """Return the role for what members of all teams read in the cluster. Empty without teams."""
    if not platform.teams:
        return []
    rules = [_rule([group], resources, READ) for group, resources in COMMON.items()]
    groups = [members_group(team.name) for team in platform.teams]
    return [_cluster_role(MEMBER, rules), _cluster_binding(MEMBER, groups)]


def team_members(platform: Platform, team: Team) -> list[dict[str, Any]]:
    """Return the role of a team's members: launch, watch, debug, and delete jobs in the team's namespace.

    Members cannot create pods of their own, which belong to a job and its queue. They can delete one, which restarts
    it. They have no exec, because commands typed into a container leave no trace in the job's record, and they cannot
    change roles. They can forward ports of pods, which is the way to reach a workspace.
    """
    rules = [
        *(_rule([group], [plural], WRITE) for group, plural in job_kinds(platform)),
        _rule([""], ["configmaps", "secrets"], WRITE),
        _rule([""], ["pods"], ["delete"]),
        # `get` is for WebSockets, which from Kubernetes 1.35 on also need `create`:
        # https://github.com/kubernetes/kubernetes/pull/134577 (read 2026-11-21)
        _rule([""], ["pods/portforward"], ["create", "get"]),
        _rule([""], [resource for resource in CORE if resource not in COMMON[""]], READ),
        # A launch creates the runtime of its TrainJob. Members can create the same pods by a Job, within the same
        # limits.
        _rule(["trainer.kubeflow.org"], ["trainingruntimes"], WRITE),
        _rule(["kueue.x-k8s.io"], ["localqueues", "workloads"], READ),
        _rule(["visibility.kueue.x-k8s.io"], ["localqueues/pendingworkloads"], READ),
        _rule(["scheduling.run.ai"], ["podgroups"], READ),
        _rule(["resource.k8s.io"], ["resourceclaims", "resourceclaimtemplates"], READ),
        _rule(["events.k8s.io"], ["events"], READ),
        _rule(["metrics.k8s.io"], ["pods"], READ),
        *(_rule([group], [plural], verbs) for group, plural, verbs in space_permissions(platform)),
    ]
    metadata = {"name": MEMBER, "namespace": namespace_of(platform, team)}
    return [
        {"apiVersion": API, "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": API,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": _role_ref("Role", MEMBER),
            "subjects": [_group(members_group(team.name))],
        },
    ]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _cluster_role(name: str, rules: list[dict[str, list[str]]]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def _cluster_binding(name: str, groups: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": _role_ref("ClusterRole", name),
        "subjects": [_group(group) for group in groups],
    }


def _role_ref(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def _group(name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
