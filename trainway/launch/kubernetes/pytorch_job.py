"""A run as PyTorchJob v1, for Kubeflow's training operator, which `kubernetes.pytorch_operator` installs.

https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/pytorch_types.go (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.node_pod import NodeContainer, node_pod
from trainway.launch.kubernetes.node_program import node_program_with_nodes
from trainway.launch.kubernetes.options import keep_seconds
from trainway.launch.kubernetes.placement import close_together_for_kai
from trainway.launch.kubernetes.process import node_command, node_environment, torchrun_options
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.program.lost_nodes import least_nodes, started_nodes, torchrun_nodes
from trainway.launch.program.training_command import RENDEZVOUS_PORT

# The operator looks for the container by this name.
_CONTAINER = "pytorch"


def render_pytorch_job(run: KubernetesRun) -> dict[str, Any]:
    """Return the PyTorchJob. It has workers only, because torchrun needs no master."""
    request, options, catalogue, namespace = run.request, run.options, run.catalogue, run.share.namespace
    allocation, restarts = request.allocation, request.program.life_cycle.restarts
    # The operator gives each pod a Service of its own name, and the first pod knows itself by that name.
    # https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/controller.v1/pytorch/elastic.go (read 2026-11-21)
    first = f"{request.run}-worker-0"
    nodes = started_nodes(request, options)
    torchrun = torchrun_options(request, torchrun_nodes(request, options), first)
    container = NodeContainer(
        _CONTAINER,
        command=node_command(node_program_with_nodes(request, options), request.code_to_import),
        environment=node_environment(request, torchrun),
    )
    template = node_pod(run, container)
    elastic: dict[str, Any] = {}
    if options.continues:
        # With an elasticPolicy, the operator marks the job as succeeded when its first pod succeeds:
        # https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/controller.v1/pytorch/pytorchjob_controller.go
        # (UpdateJobStatus, read 2026-11-27)
        elastic["elasticPolicy"] = {
            "minReplicas": least_nodes(request, options),
            "maxReplicas": nodes,
            "rdzvBackend": "c10d",
            "rdzvHost": first,
            "rdzvPort": RENDEZVOUS_PORT,
        }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": dict(run.share.labels),
            "annotations": {
                **close_together_for_kai(request, options, catalogue),
                **(_auto_resume(restarts) if namespace.startswith("hyperpod") else {}),
            },
        },
        "spec": {
            "nprocPerNode": str(allocation.ranks),
            "runPolicy": {
                # The operator adds up the restarts of the containers of running pods, and a failure of the run restarts
                # one on each node. It makes a pod that was taken away again, with a count of 0.
                # https://github.com/kubeflow/training-operator/blob/v1.7.0/pkg/core/job.go (PastBackoffLimit,
                # read 2026-11-22)
                "backoffLimit": restarts * nodes + 1,
                # After the job has succeeded, the operator deletes pods that still run, such as those of spare nodes.
                "cleanPodPolicy": "Running" if options.continues else "None",
                "ttlSecondsAfterFinished": keep_seconds(request),
            },
            **elastic,
            "pytorchReplicaSpecs": {"Worker": {"replicas": nodes, "restartPolicy": "OnFailure", "template": template}},
        },
    }


def _auto_resume(restarts: int) -> dict[str, str]:
    """Return the annotations that make HyperPod replace a bad node under the job.

    HyperPod does so for this kind alone, in namespaces that begin with `hyperpod`.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-run-jobs-hyperpod-cli.html (read 2026-11-22)
    """
    return {
        "sagemaker.amazonaws.com/enable-job-auto-resume": "true",
        "sagemaker.amazonaws.com/job-max-retry-count": str(restarts),
    }
