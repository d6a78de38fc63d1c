"""The Kubeflow Trainer runtime that every job refers to: what all jobs have in common, once.

https://github.com/kubeflow/trainer/blob/v2.3.0/manifests/base/runtimes/torch_distributed.yaml (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.lustre_volume import CLAIM
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.spec.platform import MOUNT_PATH

RUNTIME = "trainway-torch"


def training_runtime() -> dict[str, Any]:
    """A ClusterTrainingRuntime for torchrun with the platform's image, file system and shared memory."""
    container = {
        "name": "node",
        "image": "${TRAINWAY_IMAGE}",
        "volumeMounts": [
            {"name": "fsx", "mountPath": MOUNT_PATH},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
    }
    pod = {
        "serviceAccountName": SERVICE_ACCOUNT,
        "containers": [container],
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "fsx", "persistentVolumeClaim": {"claimName": CLAIM}},
            # NCCL and data workers share memory through it; a container's default of 64 MiB stops them.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": RUNTIME, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                                "spec": {"template": {"spec": pod}},
                            },
                        }
                    ]
                }
            },
        },
    }
