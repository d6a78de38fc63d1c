"""A run as Kubeflow Trainer's TrainJob, on the platform's own runtime.

The runtime has what all jobs have in common (trainway/manifests/training_runtime.py); the TrainJob says what this one
has of its own, partly as a patch of the runtime.
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.placement import close_together_for_kai, node_selector, resources
from trainway.launch.kubernetes.pod import container_security, job_file_mount, job_file_volume, pod_labels, pod_security
from trainway.launch.kubernetes.process import STOP_SECONDS, node_command, node_environment, torchrun_options
from trainway.launch.kubernetes.who_shares import job_labels, shared_nodes
from trainway.launch.request import Request
from trainway.spec.catalogue import Catalogue

# The runtime's job and its container, by the names that Trainer knows them by.
NODE = "node"
# Whose patch it is: https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/jobset/jobset.go
# (Validate, read 2026-11-21)
_MANAGER = "trainway.dev/launch"
# What Trainer writes into the environment itself, and refuses to be told there:
# https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torch.go (read 2026-11-21)
_TRAINERS_OWN = ("PET_NNODES", "PET_NPROC_PER_NODE")


def render_train_job(
    request: Request, options: KubernetesOptions, catalogue: Catalogue, namespace: str
) -> dict[str, Any]:
    """The TrainJob."""
    allocation = request.allocation
    # As the first node's pod finds it in its own /etc/hosts, so that it knows, before any DNS does, that it is the one:
    # https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (EnableDNSHostnames)
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go (managedHostsFileContent; both
    # read 2026-11-21)
    first = f"{request.run}-{NODE}-0-0.{request.run}.{namespace}.svc.cluster.local"
    torchrun = torchrun_options(request, allocation.nodes, first)
    trainer: dict[str, Any] = {
        "image": request.image,
        "numNodes": allocation.nodes,
        "numProcPerNode": allocation.ranks,
        "command": node_command(_command(request, options), options),
        "env": node_environment(request, {name: torchrun[name] for name in torchrun if name not in _TRAINERS_OWN}),
    }
    if not allocation.group.claims:
        # Where devices are claimed, the group's runtime says this too: beside it here, Trainer would drop the claims.
        trainer["resourcesPerNode"] = resources(request, catalogue)
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": job_labels(request, options.priority),
        },
        "spec": {
            "runtimeRef": {"name": allocation.group.runtime},
            "trainer": trainer,
            "runtimePatches": [
                {
                    "manager": _MANAGER,
                    "trainingRuntimeSpec": {
                        "template": {"spec": {"replicatedJobs": [_patch(request, options, catalogue)]}}
                    },
                }
            ],
        },
    }


def _command(request: Request, options: KubernetesOptions) -> tuple[str, ...]:
    """Trainer knows no least number of nodes, and writes PET_NNODES last; so torchrun is told past it."""
    if options.min_nodes is None:
        return request.command
    return ("env", f"PET_NNODES={options.min_nodes}:{request.allocation.nodes}", *request.command)


def _patch(request: Request, options: KubernetesOptions, catalogue: Catalogue) -> dict[str, Any]:
    annotations = close_together_for_kai(request, options, catalogue)
    if options.min_nodes is not None and shared_nodes(request.hand_off) == "kai":
        # How many pods KAI leaves the job: docs/kai.md.
        annotations["kai.scheduler/batch-min-member"] = str(options.min_nodes)
    return {
        "name": NODE,
        "template": {
            **({"metadata": {"annotations": annotations}} if annotations else {}),
            "spec": {
                "template": {
                    "metadata": {"labels": pod_labels(request)},
                    "spec": {
                        "nodeSelector": node_selector(request),
                        "securityContext": pod_security(),
                        "terminationGracePeriodSeconds": STOP_SECONDS,
                        "volumes": [job_file_volume(request)],
                        "containers": [
                            {
                                "name": NODE,
                                "volumeMounts": [job_file_mount()],
                                "securityContext": container_security(),
                            }
                        ],
                    },
                }
            },
        },
    }
