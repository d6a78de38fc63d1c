"""The Lustre file systems as static volumes: the stack owns them, so nothing in the cluster may create or delete one.

Beside them, where that is chosen, a class of volumes that each are a file system of their own, made for a claim and
deleted with it.

https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/static_provisioning
https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/dynamic_provisioning
(both read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.sections.storage import Lustre

CLAIM = "fsx"
DRIVER = "fsx.csi.aws.com"
STORAGE_CLASS = "fsx-lustre"
# Of volumes and claims, by which delivery/cluster.sh deletes those of a file system that is gone.
GENERATION_LABEL = "trainway.dev/lustre-generation"
# The tag of file systems that the driver makes, by which it may change and delete them and no others.
OWNER_TAG = "trainway"
# Intelligent-Tiering has room for what is written; Kubernetes wants a number, and never compares it with anything else.
ELASTIC = "1Pi"


def claim_of(generation: int) -> str:
    """Return the name of the claims of a file system, which pods refer to.

    A volume and a claim never change what they are of. Another file system therefore has claims of another name, and
    the pods that run keep theirs.
    """
    return CLAIM if generation == 1 else f"{CLAIM}-{generation}"


def lustre_volumes(platform: Platform, namespace: str) -> list[dict[str, Any]]:
    """Return a volume and its claim of each file system for one namespace, because a volume belongs to one claim."""
    storage = platform.storage
    found = _volume(platform, namespace, storage.lustre, "TRAINWAY_FSX")
    if storage.former_lustre:
        found += _volume(platform, namespace, storage.former_lustre, "TRAINWAY_FORMER_FSX")
    return found


def _volume(platform: Platform, namespace: str, lustre: Lustre, facts: str) -> list[dict[str, Any]]:
    capacity = {"storage": ELASTIC if lustre.is_elastic else f"{lustre.capacity_gib}Gi"}
    claim, labels = claim_of(lustre.generation), {GENERATION_LABEL: str(lustre.generation)}
    volume = f"{platform.name}-{claim}-{namespace}"
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume, "labels": labels},
            "spec": {
                "capacity": capacity,
                "volumeMode": "Filesystem",
                "accessModes": ["ReadWriteMany"],
                "mountOptions": ["flock"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"name": claim, "namespace": namespace},
                "csi": {
                    "driver": DRIVER,
                    # A handle names one mount; the file system's id alone would make two volumes the same one.
                    "volumeHandle": f"${{{facts}_ID}}-{namespace}",
                    "volumeAttributes": {
                        "dnsname": f"${{{facts}_DNS_NAME}}",
                        "mountname": f"${{{facts}_MOUNT_NAME}}",
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace, "labels": labels},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": capacity},
                "storageClassName": "",
                "volumeName": volume,
            },
        },
    ]


def lustre_storage_class(platform: Platform) -> list[dict[str, Any]]:
    """The class of volumes that are made for claims, like the platform's own file system but over TCP; or nothing."""
    lustre = platform.storage.lustre
    if not lustre.dynamic_volumes:
        return []
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": STORAGE_CLASS},
            "provisioner": DRIVER,
            "parameters": {
                "subnetId": "${TRAINWAY_FSX_SUBNET_ID}",
                "securityGroupIds": "${TRAINWAY_FSX_GROUP_ID}",
                "deploymentType": "PERSISTENT_2",
                "fileSystemTypeVersion": "2.15",
                "perUnitStorageThroughput": str(lustre.throughput_mbps_per_tib),
                "metadataConfigurationMode": "AUTOMATIC",
                "dataCompressionType": "LZ4" if lustre.compression else "NONE",
                # The driver's own default is a week of them.
                "automaticBackupRetentionDays": "0",
                "extraTags": f"{OWNER_TAG}={platform.name}",
                **({"kmsKeyId": lustre.key} if lustre.key else {}),
            },
            "mountOptions": ["flock"],
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": True,
        }
    ]
