"""A run as PyTorchJob v1, for Kubeflow's training operator, which `kubernetes.pytorch_operator` installs.

https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/pytorch_types.go (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.node_pod import NodeContainer, node_pod
from trainway.launch.kubernetes.node_program import with_nodes
from trainway.launch.kubernetes.process import node_command, node_environment, rank_options
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT

# The operator looks for the container by this name.
_CONTAINER = "pytorch"


def render_pytorch_job(run: KubernetesRun) -> dict[str, Any]:
    """Return the PyTorchJob. It has workers only, because the launchers of the ranks need no master."""
    request, nodes = run.request, run.nodes.started
    restarts = request.program.life_cycle.restarts
    # The operator gives each pod a Service of its own name, and the first pod knows itself by that name.
    # https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/controller.v1/pytorch/elastic.go (read 2026-11-21)
    first = f"{request.run}-worker-0"
    container = NodeContainer(
        _CONTAINER,
        command=node_command(with_nodes(run.command, run.nodes), run.on_nodes.code),
        environment=node_environment(
            run.on_nodes.directory, run.environment, rank_options(request, run.nodes.nnodes, first)
        ),
    )
    template = node_pod(run, container)
    elastic: dict[str, Any] = {}
    if run.nodes.continues:
        # With an elasticPolicy, the operator marks the job as succeeded when its first pod succeeds:
        # https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/controller.v1/pytorch/pytorchjob_controller.go
        # (UpdateJobStatus, read 2026-11-27)
        elastic["elasticPolicy"] = {
            "minReplicas": run.nodes.least,
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
            "namespace": run.share.namespace,
            "labels": dict(run.share.labels),
            "annotations": {
                **run.placement.job_annotations,
                **(_auto_resume(restarts) if run.share.namespace.startswith("hyperpod") else {}),
            },
        },
        "spec": {
            "nprocPerNode": str(request.allocation.ranks),
            "runPolicy": {
                # The operator adds up the restarts of the containers of running pods, and a failure of the run restarts
                # one on each node. It makes a pod that was taken away again, with a count of 0.
                # https://github.com/kubeflow/training-operator/blob/v1.7.0/pkg/core/job.go (PastBackoffLimit,
                # read 2026-11-22)
                "backoffLimit": restarts * nodes + 1,
                # After the job has succeeded, the operator deletes pods that still run, such as those of spare nodes.
                "cleanPodPolicy": "Running" if run.nodes.continues else "None",
                "ttlSecondsAfterFinished": run.keep_seconds,
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
