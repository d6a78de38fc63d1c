"""A run as MPIJob: the launcher's pod is the first node, and the pods of the workers are the others.

https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/apis/kubeflow/v2beta1/types.go
https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go (both read 2026-11-23)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.mpirun import (
    KEYS,
    SSH_PORT,
    mpirun_environment,
    worker_command,
)
from trainway.launch.kubernetes.node_pod import NodeContainer, in_one_group, node_pod
from trainway.launch.kubernetes.process import node_environment, rank_options
from trainway.launch.kubernetes.run import KubernetesRun


def render_mpi_job(run: KubernetesRun) -> dict[str, Any]:
    """Render a run as an MPIJob of the MPI Operator.

    The launcher is a worker as well, so that it does not need a node of its own.
    """
    request, nodes = run.request, run.request.allocation.nodes
    first = f"{request.run}-launcher.{request.run}.{run.share.namespace}.svc.cluster.local"
    options = rank_options(request, nodes, first)
    environment = node_environment(run.on_nodes.directory, run.environment, {**options, "TRAINWAY_NODE_RANK": "0"})
    names = [each["name"] for each in environment]
    settings = [{"name": name, "value": value} for name, value in mpirun_environment(names).items()]
    launcher = NodeContainer("mpi", command=run.command, environment=[*environment, *settings])
    worker = NodeContainer(
        "mpi",
        command=worker_command(request.code),
        environment=environment,
        ports=[{"containerPort": SSH_PORT}],
        # The operator creates the launcher when every worker is ready.
        readiness={"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2},
    )
    replicas = {"Launcher": (1, launcher), **({"Worker": (nodes - 1, worker)} if nodes > 1 else {})}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": request.run,
            "namespace": run.share.namespace,
            "labels": dict(run.share.labels),
            "annotations": dict(run.placement.job_annotations),
        },
        "spec": {
            "slotsPerWorker": request.allocation.ranks,
            "runLauncherAsWorker": True,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "sshAuthMountPath": KEYS,
            "runPolicy": {
                "backoffLimit": request.program.life_cycle.restarts,
                "cleanPodPolicy": "Running",
                "ttlSecondsAfterFinished": run.keep_seconds,
            },
            "mpiReplicaSpecs": {
                name: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": in_one_group(run, node_pod(run, container)),
                }
                for name, (count, container) in replicas.items()
            },
        },
    }
