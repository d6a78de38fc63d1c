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
from trainway.launch.kubernetes.node_pod import NodeContainer, node_pod
from trainway.launch.kubernetes.node_program import copying_program
from trainway.launch.kubernetes.options import keep_seconds
from trainway.launch.kubernetes.placement import close_together_for_kai, in_one_group
from trainway.launch.kubernetes.process import node_environment, torchrun_options
from trainway.launch.kubernetes.run import KubernetesRun


def render_mpi_job(run: KubernetesRun) -> dict[str, Any]:
    """Render a run as an MPIJob of the MPI Operator. Its request is that of `under_mpirun`.

    The launcher is a worker as well, so that it does not need a node of its own.
    """
    request, options, catalogue, namespace = run.request, run.options, run.catalogue, run.share.namespace
    nodes = request.allocation.nodes
    first = f"{request.run}-launcher.{request.run}.{namespace}.svc.cluster.local"
    environment = node_environment(request, {**torchrun_options(request, nodes, first), "TRAINWAY_NODE_RANK": "0"})
    names = [each["name"] for each in environment]
    settings = [{"name": name, "value": value} for name, value in mpirun_environment(names).items()]
    launcher = NodeContainer("mpi", command=copying_program(request), environment=[*environment, *settings])
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
            "namespace": namespace,
            "labels": dict(run.share.labels),
            "annotations": close_together_for_kai(request, options, catalogue),
        },
        "spec": {
            "slotsPerWorker": request.allocation.ranks,
            "runLauncherAsWorker": True,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "sshAuthMountPath": KEYS,
            "runPolicy": {
                "backoffLimit": request.program.life_cycle.restarts,
                "cleanPodPolicy": "Running",
                "ttlSecondsAfterFinished": keep_seconds(request),
            },
            "mpiReplicaSpecs": {
                name: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": in_one_group(request, node_pod(run, container)),
                }
                for name, (count, container) in replicas.items()
            },
        },
    }
