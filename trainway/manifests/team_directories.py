"""Admission policies that limit the pods of a team to the team's directory of the file system.

All teams have a claim of the same file system. A pod mounts the directory of its namespace by a `subPath`, which the
kubelet creates if it is missing. The path is compared as a whole: in a longer one, a symbolic link of the team could
lead to the directory of another team, because the kubelet only checks that a link stays in the volume.

https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath (read 2026-11-24)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.admission import policy, requests
from trainway.manifests.lustre_volume import claim_of
from trainway.spec.platform import Platform
from trainway.spec.teams.team_directories import team_directory

# The environment variable by which a template for all namespaces names the directory.
NAMESPACE_VARIABLE = "TRAINWAY_NAMESPACE"
NAMESPACE_OF_POD = {"name": NAMESPACE_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
DIRECTORY_OF_NAMESPACE = team_directory(f"$({NAMESPACE_VARIABLE})")

_IS_VARIABLE = f"e.name == '{NAMESPACE_VARIABLE}'"
_IS_NAMESPACE = (
    "has(e.valueFrom) && has(e.valueFrom.fieldRef) && e.valueFrom.fieldRef.fieldPath == 'metadata.namespace'"
)


def team_directory_guard(platform: Platform) -> list[dict[str, Any]]:
    """Return the policies and their bindings to the teams' namespaces. Empty if all teams mount the file system."""
    if not platform.storage.team_directories:
        return []
    claims = [claim_of(lustre.generation) for lustre in platform.storage.lustre_by_key.values()]
    own = f"m.subPath == '{team_directory('')}' + request.namespace"
    by_variable = (
        f"m.subPathExpr == '{DIRECTORY_OF_NAMESPACE}' && has(c.env) && c.env.exists(e, {_IS_VARIABLE}) && "
        f"c.env.all(e, !({_IS_VARIABLE}) || ({_IS_NAMESPACE}))"
    )
    mount = f"(has(m.subPath) && {own}) || (has(m.subPathExpr) && {by_variable})"
    of_container = f"!has(c.volumeMounts) || c.volumeMounts.all(m, m.name != v.name || {mount})"
    of_claim = f"!has(v.persistentVolumeClaim) || !(v.persistentVolumeClaim.claimName in {claims})"
    return [
        *policy(
            "trainway-team-directory",
            requests([""], ["pods"], ["CREATE"]),
            f"!has(object.spec.volumes) || object.spec.volumes.all(v, {of_claim} || "
            f"(object.spec.containers.all(c, {of_container}) && "
            f"(!has(object.spec.initContainers) || object.spec.initContainers.all(c, {of_container}))))",
            f"a team's pods mount a claim of the platform's file system with `subPath: {team_directory('NAMESPACE')}`",
        ),
        # Kubernetes gives an ephemeral container no subPath, so that it would mount the whole file system.
        # https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#EphemeralContainer
        # (read 2026-11-24)
        *policy(
            "trainway-team-directory-debug",
            requests([""], ["pods/ephemeralcontainers"], ["UPDATE"]),
            "!has(object.spec.ephemeralContainers) || "
            "object.spec.ephemeralContainers.all(c, !has(c.volumeMounts) || c.volumeMounts.size() == 0)",
            "an ephemeral container of a team's pod mounts no volume",
        ),
    ]
