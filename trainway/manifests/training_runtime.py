"""The Kubeflow Trainer runtime that every job refers to: what all jobs have in common, once.

https://github.com/kubeflow/trainer/blob/v2.3.0/manifests/base/runtimes/torch_distributed.yaml (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.lustre_volume import CLAIM
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.manifests.taints import tolerations
from trainway.manifests.topology import HOSTNAME
from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.storage import MOUNT_PATH

RUNTIME = "trainway-torch"


def training_runtime(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
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
        "tolerations": tolerations(platform, catalogue),
        "volumes": [
            {"name": "fsx", "persistentVolumeClaim": {"claimName": CLAIM}},
            # NCCL and data workers share memory through it; a container's default of 64 MiB stops them.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
    }
    template: dict[str, Any] = {"spec": pod}
    if platform.kueue:
        # As close together as there is room: Kueue goes up from this level, which every flavor has, so that the wish
        # keeps no job off any nodes. Without it the pods fill gaps all over the network.
        # https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/#user-facing-apis (read 2026-11-21)
        template["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-preferred-topology": HOSTNAME}}
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
                                "spec": {"template": template},
                            },
                        }
                    ]
                }
            },
        },
    }
