"""A run as Kubeflow Trainer's TrainJob, with a TrainingRuntime of its own.

A TrainJob names the image, the command, and the number of nodes. Everything else comes from the runtime that it refers
to, and a TrainJob can patch only a part of that: neither how often its JobSet starts again, nor what counts as a
failure, nor an annotation that the runtime has and the run must not have. So each run brings its runtime.
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go (TrainingRuntimeSpecPatch)
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainingruntime_types.go (both
read 2026-11-22)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.node_pod import node_pod
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.placement import close_together_for_kai
from trainway.launch.kubernetes.process import node_command, node_environment, torchrun_options
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL, job_labels, shared_nodes
from trainway.launch.request import Request
from trainway.manifests.life_cycle import restarted_as_a_whole
from trainway.spec.facts.catalogue import Catalogue

# The runtime's job and its container, by the names that Trainer knows them by.
NODE = "node"
_API = "trainer.kubeflow.org"
# What Trainer writes into the environment itself, and refuses to be told there:
# https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torch.go (read 2026-11-21)
_TRAINERS_OWN = ("PET_NNODES", "PET_NPROC_PER_NODE")


def render_train_job(request: Request, options: KubernetesOptions, namespace: str) -> dict[str, Any]:
    """Return the TrainJob, which refers to the runtime of the same name."""
    allocation = request.allocation
    # As the first node's pod finds it in its own /etc/hosts, so that it knows, before any DNS does, that it is the one:
    # https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (EnableDNSHostnames)
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go (managedHostsFileContent; both
    # read 2026-11-21)
    first = f"{request.run}-{NODE}-0-0.{request.run}.{namespace}.svc.cluster.local"
    torchrun = torchrun_options(request, allocation.nodes, first)
    return {
        "apiVersion": f"{_API}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": job_labels(request, options.priority),
        },
        "spec": {
            "runtimeRef": {"apiGroup": _API, "kind": "TrainingRuntime", "name": request.run},
            "trainer": {
                "image": request.image,
                "numNodes": allocation.nodes,
                "numProcPerNode": allocation.ranks,
                "command": node_command(_command(request, options), request.code),
                "env": node_environment(
                    request, {name: torchrun[name] for name in torchrun if name not in _TRAINERS_OWN}
                ),
            },
        },
    }


def render_training_runtime(
    request: Request, options: KubernetesOptions, catalogue: Catalogue, namespace: str
) -> dict[str, Any]:
    """Return the TrainingRuntime of the run: its pods, and its life cycle.

    There is no time to live. Trainer 2.3 makes the JobSet of a failed TrainJob again when the JobSet is deleted, so
    that a failed run would start again.
    https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/controller/trainjob_controller.go (Reconcile,
    removeFailedCondition; read 2026-11-22)
    """
    annotations = close_together_for_kai(request, options, catalogue)
    if options.min_nodes is not None and shared_nodes(request.hand_off) == "kai":
        # How many pods KAI leaves the job: docs/kai.md.
        annotations["kai.scheduler/batch-min-member"] = str(options.min_nodes)
    job = {
        "metadata": {
            "labels": {f"{_API}/trainjob-ancestor-step": "trainer"},
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {"template": node_pod(request, options, catalogue, name=NODE)},
    }
    restarts = request.job.life_cycle.restarts
    return {
        "apiVersion": f"{_API}/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": {RUN_LABEL: request.run, **MANAGED_BY, f"{_API}/framework": "torch"},
        },
        "spec": {
            "mlPolicy": {"numNodes": request.allocation.nodes, "torch": {}},
            "template": {"spec": restarted_as_a_whole({"name": NODE, "template": job}, restarts)},
        },
    }


def _command(request: Request, options: KubernetesOptions) -> tuple[str, ...]:
    """Trainer knows no least number of nodes, and writes PET_NNODES last; so torchrun is told past it."""
    if options.min_nodes is None:
        return request.command
    return ("env", f"PET_NNODES={options.min_nodes}:{request.allocation.nodes}", *request.command)
