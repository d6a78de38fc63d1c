"""A run as MPIJob: mpirun starts one program a node, torchrun for the job of a job file, or a program of MPI's own.

https://github.com/kubeflow/mpi-operator/blob/v0.8.0/pkg/apis/kubeflow/v2beta1/types.go
https://github.com/kubeflow/mpi-operator/blob/v0.8.0/pkg/controller/mpi_job_controller.go (both read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.launch.kubernetes.node_pod import node_pod
from trainway.launch.kubernetes.options import KubernetesOptions, keep_seconds
from trainway.launch.kubernetes.placement import close_together_for_kai
from trainway.launch.kubernetes.process import node_command, node_environment, torchrun_options
from trainway.launch.kubernetes.who_shares import job_labels, shared_nodes
from trainway.launch.request import Request
from trainway.spec.facts.catalogue import Catalogue

# In the image, where the EFA installer puts it; named in full, mpirun finds its own parts on the other nodes.
MPIRUN = "/opt/amazon/openmpi/bin/mpirun"
# Whoever is not root reads no key of the host's, and has no port below 1024.
_SSH_PORT = 2222
_KEYS = "/etc/trainway-ssh"
_SSHD = (
    "ssh-keygen -q -t ed25519 -N '' -f /tmp/host_key && exec /usr/sbin/sshd -De -f /dev/null "
    f"-p {_SSH_PORT} -h /tmp/host_key -o PidFile=none -o UsePAM=no -o StrictModes=no "
    f"-o AuthorizedKeysFile={_KEYS}/authorized_keys"
)
# The operator makes a key for each run, whose nodes have never been seen before.
_SSH = (
    f"-p {_SSH_PORT} -i {_KEYS}/id_rsa -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
    "-o LogLevel=ERROR -o ConnectionAttempts=10"
)
# What a CUDA image says in its own environment (container/Dockerfile), which does not come along with ssh.
OF_THE_IMAGE = (
    "FI_EFA_USE_HUGE_PAGE",
    "LD_LIBRARY_PATH",
    "NCCL_NET_PLUGIN",
    "NCCL_SOCKET_IFNAME",
    "OMP_NUM_THREADS",
    "PATH",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
)


def render_mpi_job(
    request: Request,
    options: KubernetesOptions,
    catalogue: Catalogue,
    namespace: str,
    *,
    program: Sequence[str] | None = None,
    processes_per_node: int = 1,
) -> dict[str, Any]:
    """The MPIJob. `program` runs `processes_per_node` times on each node; by default that is torchrun, once.

    The first node is the launcher as well, which so needs no node of its own.
    """
    nodes = request.allocation.nodes
    first = f"{request.run}-launcher.{request.run}.{namespace}.svc.cluster.local"
    environment = node_environment(request, torchrun_options(request, nodes, first))
    on_a_node = node_command(program or request.command, request.code)
    launcher: dict[str, Any] = {"command": _mpirun(environment, on_a_node, nodes, processes_per_node)}
    worker: dict[str, Any] = {
        "command": ["sh", "-c", _SSHD],
        "ports": [{"containerPort": _SSH_PORT}],
        # The launcher is made when every worker can be reached.
        "readiness": {"tcpSocket": {"port": _SSH_PORT}, "periodSeconds": 2},
    }
    replicas = {"Launcher": (1, launcher), **({"Worker": (nodes - 1, worker)} if nodes > 1 else {})}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": request.run,
            "namespace": namespace,
            "labels": job_labels(request, options.priority),
            "annotations": close_together_for_kai(request, options, catalogue),
        },
        "spec": {
            "slotsPerWorker": processes_per_node,
            "runLauncherAsWorker": True,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "sshAuthMountPath": _KEYS,
            "runPolicy": {
                "backoffLimit": request.job.life_cycle.restarts,
                "cleanPodPolicy": "Running",
                "ttlSecondsAfterFinished": keep_seconds(request),
            },
            "mpiReplicaSpecs": {
                name: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": _together(
                        request,
                        node_pod(request, options, catalogue, name="mpi", environment=environment, **own),
                        nodes,
                    ),
                }
                for name, (count, own) in replicas.items()
            },
        },
    }


def _together(request: Request, template: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Launcher and workers are two sets of pods to Kueue, which puts them in one place if they are one group.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/#user-facing-apis (read 2026-11-21)
    """
    if nodes > 1 and shared_nodes(request.hand_off) != "kai":
        template["metadata"]["annotations"]["kueue.x-k8s.io/podset-group-name"] = "nodes"
    return template


def _mpirun(
    environment: list[dict[str, Any]], program: Sequence[str], nodes: int, processes_per_node: int
) -> list[str]:
    exported = sorted({*OF_THE_IMAGE, *(variable["name"] for variable in environment)})
    return [
        MPIRUN,
        "-np",
        str(nodes * processes_per_node),
        "--map-by",
        f"ppr:{processes_per_node}:node",
        "--bind-to",
        "none",
        "--mca",
        "plm_rsh_args",
        _SSH,
        *(word for name in exported for word in ("-x", name)),
        *program,
    ]
