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
from trainway.launch.kubernetes.node_program import with_nodes
from trainway.launch.kubernetes.process import node_command, node_environment, rank_options
from trainway.launch.kubernetes.run import KubernetesRun
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL

_API = "trainer.kubeflow.org"
# What Trainer writes into the environment itself, and refuses to be told there:
# https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torch.go (read 2026-11-21)
_TRAINERS_OWN = ("PET_NNODES", "PET_NPROC_PER_NODE")


def render_train_job(run: KubernetesRun) -> dict[str, Any]:
    """Return the TrainJob, which refers to the runtime of the same name."""
    request = run.request
    options = rank_options(request, run.nodes.nnodes, first_node(run), indexed=True)
    settings = {name: value for name, value in options.items() if name not in _TRAINERS_OWN}
    return {
        "apiVersion": f"{_API}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": request.run,
            "namespace": run.share.namespace,
            "labels": dict(run.share.labels),
        },
        "spec": {
            "runtimeRef": {"apiGroup": _API, "kind": "TrainingRuntime", "name": request.run},
            "trainer": {
                "image": request.image,
                "numNodes": run.nodes.started,
                "numProcPerNode": request.allocation.ranks,
                "command": node_command(with_nodes(run.command, run.nodes), run.on_nodes.code),
                "env": node_environment(run.on_nodes.directory, run.environment, settings),
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
    labels = {f"{_API}/trainjob-ancestor-step": "trainer"}
    return {
        "apiVersion": f"{_API}/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {
            "name": run.request.run,
            "namespace": run.share.namespace,
            "labels": {RUN_LABEL: run.request.run, **MANAGED_BY, f"{_API}/framework": "torch"},
        },
        "spec": {
            "mlPolicy": {"numNodes": run.nodes.started, "torch": {}},
            "template": {"spec": job_set_spec(run, labels=labels)},
        },
    }
