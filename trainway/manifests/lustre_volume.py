"""The Lustre file systems as static volumes. The stack owns them, so no object in the cluster may create or delete one.

Optionally, a StorageClass for dynamic volumes: each is a file system of its own, created for a claim and deleted with
it.

https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/static_provisioning
https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/dynamic_provisioning (both read
2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.sections.storage import Lustre
from trainway.spec.sections.tags import OWNER_TAG

CLAIM = "fsx"
DRIVER = "fsx.csi.aws.com"
STORAGE_CLASS = "fsx-lustre"
# Label of volumes and claims, by which delivery/cluster.sh deletes those of a file system that is gone.
GENERATION_LABEL = "trainway.dev/lustre-generation"
# Intelligent-Tiering has no fixed capacity. Kubernetes requires a number, but does not compare it with anything.
ELASTIC = "1Pi"


def claim_of(generation: int) -> str:
    """Return the name of the claims of a file system, which pods refer to.

    A volume and a claim never change their file system. Another file system therefore has claims of another name, and
    running pods keep theirs.
    """
    return CLAIM if generation == 1 else f"{CLAIM}-{generation}"


def lustre_volumes(platform: Platform, namespace: str) -> list[dict[str, Any]]:
    """Return a volume and its claim for each file system, in one namespace. A volume belongs to one claim only."""
    facts = {"lustre": "TRAINWAY_FSX", "former_lustre": "TRAINWAY_FORMER_FSX"}
    of_each = (_volume(platform, namespace, each, facts[key]) for key, each in platform.storage.lustre_by_key.items())
    return [volume for volumes in of_each for volume in volumes]


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
                    # A handle names one mount. With only the file system's ID, two volumes would count as the same one.
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
    """Return the StorageClass for dynamic volumes, like the platform's own file system but over TCP.

    Empty if not chosen.
    """
    lustre = platform.storage.lustre
    if lustre is None or not lustre.dynamic_volumes:
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
                # The driver's default keeps backups for a week.
                "automaticBackupRetentionDays": "0",
                "extraTags": f"{OWNER_TAG}={platform.name}",
                **({"kmsKeyId": lustre.key} if lustre.key else {}),
            },
            "mountOptions": ["flock"],
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": True,
        }
    ]
