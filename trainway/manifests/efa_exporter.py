"""The exporter of EFA's counters on the EFA nodes of a cluster, which an AWS managed collector scrapes.

It is Trainway's exporter of Slurm nodes, so that both orchestrators have metrics of the same names. The pods run the
image of the nodes' jobs, which the nodes need anyway, with the two files of the exporter from a ConfigMap.

A pod sees no hw_counters in its own /sys, because the kernel shows them to the host's network namespace only. The pods
therefore mount /sys of the node, read-only. The pods request nothing, so that a job still fits on a whole node.
https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/sysfs.c (ib_setup_port_attrs, read 2026-11-27)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.taints import daemon_tolerations
from trainway.manifests.training_runtime import image_fact
from trainway.parts.checkout import CHECKOUT
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics_ports import EFA_METRICS_PORT
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

NAMESPACE = "trainway-metrics"
# The label that all pods of the exporter have, for each image.
LABEL, NAME = "app.kubernetes.io/name", "efa-exporter"
_FILES = ("exporter.py", "efa.py")
_DIRECTORY = "/opt/trainway"
# Nobody. /sys is readable by all.
_USER = 65534


def efa_exporter(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the namespace, the exporter's files, and a DaemonSet for each image. Empty if nothing scrapes them."""
    groups: dict[str, list[NodeGroup]] = {}
    for group in platform.node_groups:
        if catalogue[group.instance_type].efa_interfaces:
            groups.setdefault(group.image or DEFAULT_IMAGE, []).append(group)
    if not groups or collector_of(platform) is not Collector.AWS_MANAGED:
        return []
    # Only this level allows a mount of the node's /sys. Members of teams have no permission in the namespace.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    directory = CHECKOUT / "lifecycle_scripts/exporters"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "data": {name: (directory / name).read_text(encoding="utf-8") for name in _FILES},
        },
        *(_daemon_set(platform, catalogue, image, of_image) for image, of_image in groups.items()),
    ]


def _daemon_set(platform: Platform, catalogue: Catalogue, image: str, groups: list[NodeGroup]) -> dict[str, Any]:
    name = NAME if image == DEFAULT_IMAGE else f"{NAME}-{image}"
    selector = {LABEL: NAME, "app.kubernetes.io/instance": name}
    term = {"matchExpressions": [{"key": NODES_LABEL, "operator": "In", "values": [group.name for group in groups]}]}
    container = {
        "name": "exporter",
        "image": f"${{{image_fact(image)}}}",
        "command": ["python3", f"{_DIRECTORY}/exporter.py", "efa", "0.0.0.0", str(EFA_METRICS_PORT)],
        "ports": [{"name": "metrics", "containerPort": EFA_METRICS_PORT}],
        "env": [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "0", "memory": "0"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "files", "mountPath": _DIRECTORY, "readOnly": True},
            {"name": "sys", "mountPath": "/sys", "readOnly": True},
        ],
    }
    spec = {
        "automountServiceAccountToken": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        "tolerations": daemon_tolerations(platform, catalogue, groups),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "files", "configMap": {"name": NAME}},
            {"name": "sys", "hostPath": {"path": "/sys", "type": "Directory"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": selector}, "spec": spec},
        },
    }
