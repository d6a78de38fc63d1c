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

from trainway.launch.kubernetes.job_set import first_node, job_set_spec
from trainway.launch.kubernetes.node_program import node_program_with_nodes
from trainway.launch.kubernetes.process import (
    counted_restarts,
    node_command,
    node_environment,
    torchrun_options,
)
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL
from trainway.launch.program.lost_nodes import started_nodes, torchrun_nodes

_API = "trainer.kubeflow.org"
# What Trainer writes into the environment itself, and refuses to be told there:
# https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torch.go (read 2026-11-21)
_TRAINERS_OWN = ("PET_NNODES", "PET_NPROC_PER_NODE")


def render_train_job(run: KubernetesRun) -> dict[str, Any]:
    """Return the TrainJob, which refers to the runtime of the same name."""
    request, options, namespace = run.request, run.options, run.share.namespace
    torchrun = torchrun_options(request, torchrun_nodes(request, options), first_node(request, namespace))
    return {
        "apiVersion": f"{_API}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": dict(run.share.labels),
        },
        "spec": {
            "runtimeRef": {"apiGroup": _API, "kind": "TrainingRuntime", "name": request.run},
            "trainer": {
                "image": request.image,
                "numNodes": started_nodes(request, options),
                "numProcPerNode": request.allocation.ranks,
                "command": node_command(node_program_with_nodes(request, options), request.code_to_import),
                "env": node_environment(
                    request,
                    {name: torchrun[name] for name in torchrun if name not in _TRAINERS_OWN}
                    | counted_restarts(request),
                ),
            },
        },
    }


def render_training_runtime(run: KubernetesRun) -> dict[str, Any]:
    """Return the TrainingRuntime of the run: its pods, and its life cycle.

    There is no time to live. Trainer 2.3 makes the JobSet of a failed TrainJob again when the JobSet is deleted, so
    that a failed run would start again.
    https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/controller/trainjob_controller.go (Reconcile,
    removeFailedCondition; read 2026-11-22)
    """
    request, options, namespace = run.request, run.options, run.share.namespace
    labels = {f"{_API}/trainjob-ancestor-step": "trainer"}
    return {
        "apiVersion": f"{_API}/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": {RUN_LABEL: request.run, **MANAGED_BY, f"{_API}/framework": "torch"},
        },
        "spec": {
            "mlPolicy": {"numNodes": started_nodes(request, options), "torch": {}},
            "template": {"spec": job_set_spec(run, labels=labels)},
        },
    }
