"""What the container is told: its command, its environment, and where SageMaker puts things in it.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-train-storage.html (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from trainway.launch.node.program_output import KEPT_IN
from trainway.launch.program.environment import network_environment, nodes_environment
from trainway.launch.program.launcher_conflicts import starts_on_all_nodes
from trainway.launch.program.program import SAGEMAKER_HOST
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT, logging_to, many_nodes
from trainway.launch.program.request import OnNodes, Request
from trainway.launch.program.stopping import LONGEST_GRACE_ON_SAGEMAKER, STOPPED
from trainway.launch.registry.state import VARIABLE
from trainway.spec.errors import usage_error
from trainway.spec.image.image_reference import ecr_repository_of

CHANNELS = PurePosixPath("/opt/ml/input/data")
JOB = "job"
"""The input channel with the job file and the files of the launcher."""
# The first process of each host copies what is written here to the bucket while the job runs, and back when it starts
# again (trainway/launch/node/run_files.py).
SYNCED = PurePosixPath("/opt/ml/checkpoints")
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AlgorithmSpecification.html (read 2026-11-23)
_LONGEST_ARGUMENT, _MOST_ARGUMENTS = 256, 100
_SHORTER = "put the script into a file of the code, and write its name in `run.command`"


def entry_point() -> list[str]:
    """Return what every host starts, whatever its image has: sagemaker_host.py, which starts the program."""
    return ["python3", str(CHANNELS / JOB / SAGEMAKER_HOST.name)]


def arguments(request: Request, on_nodes: OnNodes, channels: Mapping[str, str]) -> list[str]:
    """Return the container's arguments, which end with the training command; `channels` are those of locations.

    Raises UsageError for arguments that SageMaker does not take.
    """
    found = _arguments(on_nodes, channels)
    what = f"{request.program.name} cannot be launched on SageMaker"
    if len(found) > _MOST_ARGUMENTS:
        why = f"its command has {len(found)} words with those of the launcher, and SageMaker takes {_MOST_ARGUMENTS}"
        raise usage_error(what, why=why, fix=_SHORTER)
    for word in found:
        if len(word) > _LONGEST_ARGUMENT or "\n" in word:
            why = f"SageMaker takes arguments of one line and {_LONGEST_ARGUMENT} characters, and not {word[:40]!r}…"
            raise usage_error(what, why=why, fix=_SHORTER)
    return found


def _arguments(on_nodes: OnNodes, channels: Mapping[str, str]) -> list[str]:
    code = [f"--code={on_nodes.code}"] if on_nodes.code else []
    held = [f"--channel={location}={channel}" for location, channel in channels.items()]
    return [f"--port={RENDEZVOUS_PORT}", *code, *held, "--", *on_nodes.command]


def environment(
    request: Request,
    on_nodes: OnNodes,
    roots: Mapping[str, str],
    channels: Mapping[str, str],
    job_file: PurePosixPath,
    *,
    repaired: bool,
    streamed: bool,
) -> dict[str, str]:
    """Return the environment that all nodes share. sagemaker_host.py adds what differs between them.

    `repaired` nodes are those that SageMaker checks and replaces when the container fails. The ranks are then not
    restarted in place, on the faulty node, unless the job file says how often. `streamed` channels fetch a file of data
    while it is read.
    https://docs.aws.amazon.com/sagemaker/latest/dg/model-checkpoints-cluster-repair.html (read 2026-11-21)

    EFA needs nothing here: SageMaker mounts a node's devices into its container, and the image knows how to use them.
    https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-efa.html (read 2026-11-21)
    """
    allocation, life_cycle = request.allocation, request.program.life_cycle
    run = run_directory(on_nodes, roots)
    restarts = life_cycle.process_restarts if not repaired or "process_restarts" in life_cycle.stated else 0
    ranks = many_nodes(
        allocation.nodes,
        allocation.ranks,
        endpoint="",
        run=request.run,
        max_restarts=restarts,
    )
    del ranks["PET_RDZV_ENDPOINT"]  # what sagemaker_host.py finds out
    variables = {
        **nodes_environment(request.hand_off, allocation, roots, job_file, run),
        **network_environment(request.network),
        **({"TRAINWAY_RUN_LOCATION": on_nodes.location} if run == SYNCED else {}),
        **({"TRAINWAY_STREAMED": ":".join(str(CHANNELS / name) for name in channels.values())} if streamed else {}),
        VARIABLE: on_nodes.state_location,
        **ranks,
        **logging_to(run / "logs"),
        # Without it, the ranks are killed after 30 seconds (torch/distributed/launcher/api.py of PyTorch 2.13).
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(LONGEST_GRACE_ON_SAGEMAKER),
        "TRAINWAY_STOPPED_STATUS": str(STOPPED),
    }
    return dict(sorted({**variables, **_of_program(request, on_nodes, roots, channels)}.items()))


def check_starter(request: Request) -> None:
    """Raise UsageError for a section `run` that a training job cannot have."""
    what = f"{request.program.name} cannot be launched on SageMaker"
    grace = request.program.stop.grace_seconds or 0
    if grace > LONGEST_GRACE_ON_SAGEMAKER:
        why = f"run.stop.grace is {grace} seconds, and a container is killed 120 seconds after it is told to stop"
        raise usage_error(what, why=why, fix=f"set run.stop.grace to at most {LONGEST_GRACE_ON_SAGEMAKER}")
    if launcher := starts_on_all_nodes(request.program):
        why = f"each node runs the program, and {launcher} would start the ranks of all nodes again"
        raise usage_error(what, why=why, fix="write torchrun in the place of it")
    if ecr_repository_of(request.image) is None:
        fix = "copy the image into ECR, and name it there by its digest"
        raise usage_error(what, why=f"the image {request.image} is not in ECR", fix=fix)


def _of_program(
    request: Request, on_nodes: OnNodes, roots: Mapping[str, str], channels: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of the program. Its outputs are in the mounted file system, or where SageMaker syncs."""
    program, run = request.program, run_directory(on_nodes, roots)
    if program.started_by is None:
        return dict(program.environment)
    if run == SYNCED:
        program = replace(program, outputs=None)
    held = {location: str(CHANNELS / name) for location, name in channels.items()}
    located = {name: held.get(location.rstrip("/"), location) for name, location in program.located.items()}
    variables = replace(program, located=located).variables(request.run, run, roots) | {**on_nodes.size}
    # CloudWatch has all lines of the container, and keeps them.
    return variables | {KEPT_IN: "console"}


def run_directory(on_nodes: OnNodes, roots: Mapping[str, str]) -> PurePosixPath:
    """Return the directory for metrics and logs: on the file system, or where SageMaker uploads files from."""
    file_system = PurePosixPath(roots.get("fsx", ""))
    return file_system / on_nodes.paths.path if file_system.is_absolute() else SYNCED
