"""The DaemonSet that creates the directories of teams, so that no pod of a team has to run as root.

The kubelet creates a missing `subPath` for root alone, and `fsGroup` changes nothing: the FSx CSI driver applies it
only to volumes of one node. The pods of the DaemonSet are in a namespace of the platform, which members cannot use.
They request nothing, so that a job still fits on a whole node. The Cluster Autoscaler adds no node for them.

https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#delegating-volume-permission-and-ownership-change-to-csi-driver
https://github.com/kubernetes-sigs/aws-fsx-csi-driver/pull/348 (both read 2026-11-27)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.lustre_volume import claim_of, lustre_volumes
from trainway.manifests.namespace import namespaces
from trainway.manifests.open_directories import keep_open
from trainway.manifests.taints import tolerations_of
from trainway.manifests.training_runtime import image_fact
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.storage import MOUNT_PATH
from trainway.spec.teams.team_directories import team_directory

NAMESPACE = "trainway-file-system"
NAME = "team-directories"


def team_directory_opener(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the namespace, its volumes, and a DaemonSet for each image. Empty if all teams mount the file system.

    The nodes run the image of their jobs, which they need anyway.
    """
    if not platform.storage.team_directories:
        return []
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    groups: dict[str, list[NodeGroup]] = {}
    for group in platform.node_groups:
        groups.setdefault(group.image or DEFAULT_IMAGE, []).append(group)
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        *lustre_volumes(platform, NAMESPACE),
        *(_daemon_set(platform, catalogue, image, of_image) for image, of_image in groups.items()),
    ]


def _daemon_set(platform: Platform, catalogue: Catalogue, image: str, groups: list[NodeGroup]) -> dict[str, Any]:
    name = NAME if image == DEFAULT_IMAGE else f"{NAME}-{image}"
    labels = {"app.kubernetes.io/name": name}
    mount = {"name": "fsx", "mountPath": MOUNT_PATH}
    directories = [team_directory(namespace) for namespace in namespaces(platform)]
    term = {"matchExpressions": [{"key": NODES_LABEL, "operator": "In", "values": [group.name for group in groups]}]}
    spec = {
        "automountServiceAccountToken": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        "tolerations": tolerations_of(*(each for group in groups for each in types_of(group, catalogue))),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 1,
        "containers": [keep_open(f"${{{image_fact(image)}}}", mount, directories)],
        "volumes": [
            {
                "name": "fsx",
                "persistentVolumeClaim": {"claimName": claim_of(platform.storage.of_jobs.generation)},
            }
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
