"""What the container of a node runs, and in which environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from trainway.launch.node.node_of_run import RESTARTS
from trainway.launch.program.environment import metrics_environment
from trainway.launch.program.program import SYNCED_CODE
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT, logging_to, many_nodes
from trainway.launch.program.request import Request
from trainway.launch.program.stopping import STOPPED

# The directory of a pod that has the job file, and the volume that mounts it.
VOLUME = "job-file"
DIRECTORY = PurePosixPath("/etc/trainway")
JOB_FILE = DIRECTORY / "job.yaml"
# From the signal to the last byte of a checkpoint; then the pod is killed. The launcher of the ranks kills them a
# little before, which it would do after 30 seconds: torch/distributed/launcher/api.py of PyTorch 2.13.
STOP_SECONDS = 300
KILL_RANKS_AFTER = STOP_SECONDS - 20
# How long the nodes that are left wait for another in the place of a lost one, which HyperPod has to replace and check.
# torchrun's own limit is 600 seconds: torch/distributed/elastic/rendezvous/dynamic_rendezvous.py of PyTorch 2.13.
# https://github.com/awslabs/ai-on-sagemaker-hyperpod/blob/main/website/docs/06-validation-and-testing/resiliency/eks-resiliency.md
# (read 2026-11-21)
JOIN_SECONDS = 3600
# A bound for a run whose first node cannot count, for example because its file system is full. The default allows 300
# restarts in the life of a run.
_RESTARTS_OF_A_LIFE = 30
CODE = "/tmp/trainway-code"
# The program becomes the container's first process, which is the one that is told to stop. Kubernetes makes $( of $$(.
_WITH_CODE = (
    f'code=$$(python3 {DIRECTORY / SYNCED_CODE.name} "$0" {CODE}) || exit; '
    'export PYTHONPATH="$code${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"'
)


def node_command(command: Sequence[str], code: str | None) -> list[str]:
    """Return the command of a node. If there is an archive `code`, the node fetches it first."""
    return ["sh", "-c", _WITH_CODE, code, *command] if code else list(command)


def restarts_of_object(request: Request) -> int:
    """Return how often Kubernetes starts the run again after failures.

    The training job counts restarts without a new checkpoint itself, and gives up with a status after which there is
    none (training/hosts/restarts.py). Kubernetes would count those of the whole life of the run.
    """
    restarts = request.program.life_cycle.restarts
    return _RESTARTS_OF_A_LIFE * restarts if _counts_itself(request) else restarts


def _counts_itself(request: Request) -> bool:
    return request.program.counts_restarts and request.program.life_cycle.restarts > 0


def rank_options(request: Request, nodes: int | str, first: str, *, indexed: bool = False) -> dict[str, str]:
    """Return the options of the launcher of the ranks, as environment variables, for nodes that meet on host `first`.

    `nodes` is their number, or `least:most`. In `indexed` pods, a training job counts its restarts.
    """
    endpoint = f"{first}:{RENDEZVOUS_PORT}"
    life_cycle = request.program.life_cycle
    restarts = life_cycle.process_restarts
    options = many_nodes(nodes, request.allocation.ranks, endpoint=endpoint, run=request.run, max_restarts=restarts)
    options["PET_RDZV_CONF"] += f",join_timeout={JOIN_SECONDS}"
    counted = {RESTARTS: str(life_cycle.restarts)} if indexed and _counts_itself(request) else {}
    return options | counted


def node_environment(
    directory: PurePosixPath, job: Mapping[str, str], ranks: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the environment of the container. Each variable comes after those that it refers to.

    `job` is the environment of the job, whose run has the `directory`. `ranks` has the options of the launcher of the
    ranks. Each node logs below its pod's name.
    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    (read 2026-11-21)
    """
    variables = {
        **job,
        **logging_to(directory / "logs" / "$(POD_NAME)"),
        **ranks,
        **metrics_environment(),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(KILL_RANKS_AFTER),
        # A run that was told to stop is not done. Without a status of its own, a node that outlives one that was taken
        # away would count as finished, and nobody would start the run again.
        "TRAINWAY_STOPPED_STATUS": str(STOPPED),
    }
    name_of_pod = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    # Events of the platform name the node, and the state of the run says which nodes it has.
    name_of_node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return [name_of_pod, name_of_node, *({"name": name, "value": value} for name, value in sorted(variables.items()))]
