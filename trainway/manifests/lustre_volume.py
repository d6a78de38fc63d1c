"""The Lustre file system as a static volume: the stack owns it, so nothing in the cluster may create or delete it.

Beside it, where that is chosen, a class of volumes that each are a file system of their own, made for a claim and
deleted with it.

https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/static_provisioning
https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/dynamic_provisioning
(both read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform

CLAIM = "fsx"
DRIVER = "fsx.csi.aws.com"
STORAGE_CLASS = "fsx-lustre"
# The tag of file systems that the driver makes, by which it may change and delete them and no others.
OWNER_TAG = "trainway"
# Intelligent-Tiering has room for what is written; Kubernetes wants a number, and never compares it with anything else.
ELASTIC = "1Pi"


def lustre_volume(platform: Platform, namespace: str) -> list[dict[str, Any]]:
    """A volume and its claim for one namespace; a volume belongs to one claim, so each namespace has its own."""
    lustre = platform.storage.lustre
    capacity = {"storage": ELASTIC if lustre.is_elastic else f"{lustre.capacity_gib}Gi"}
    volume = f"{platform.name}-{CLAIM}-{namespace}"
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": capacity,
                "volumeMode": "Filesystem",
                "accessModes": ["ReadWriteMany"],
                "mountOptions": ["flock"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"name": CLAIM, "namespace": namespace},
                "csi": {
                    "driver": DRIVER,
                    # A handle names one mount; the file system's id alone would make two volumes the same one.
                    "volumeHandle": "${TRAINWAY_FSX_ID}" + f"-{namespace}",
                    "volumeAttributes": {
                        "dnsname": "${TRAINWAY_FSX_DNS_NAME}",
                        "mountname": "${TRAINWAY_FSX_MOUNT_NAME}",
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": namespace},
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
