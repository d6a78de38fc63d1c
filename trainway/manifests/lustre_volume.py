"""The Lustre file system as a static volume: the stack owns it, so nothing in the cluster may create or delete it.

https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/static_provisioning
(read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform

CLAIM = "fsx"


def lustre_volume(platform: Platform, namespace: str) -> list[dict[str, Any]]:
    """A volume and its claim for one namespace; a volume belongs to one claim, so each namespace has its own."""
    capacity = {"storage": f"{platform.storage.lustre.capacity_gib}Gi"}
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
                    "driver": "fsx.csi.aws.com",
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
