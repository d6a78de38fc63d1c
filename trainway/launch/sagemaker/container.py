"""What the container is told: its command, its environment, and where SageMaker puts things in it.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-train-storage.html (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from trainway.launch.environment import job_environment, platform_environment
from trainway.launch.request import Request
from trainway.launch.training_command import RENDEZVOUS_PORT, logging_to, many_nodes

CHANNELS = PurePosixPath("/opt/ml/input/data")
# SageMaker copies what is written here to the bucket while the job runs, and back before it starts again.
SYNCED = PurePosixPath("/opt/ml/checkpoints")
# SageMaker's own kills a container 120 seconds after SIGTERM, and torchrun its ranks after 30:
# https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-dockerfile.html (read 2026-11-21),
# torch/distributed/launcher/api.py of PyTorch 2.13.
_KILL_RANKS_AFTER = 110
# As under Kubernetes (trainway/launch/kubernetes/process.py): a run that was told to stop is not done.
_STOPPED_STATUS = 75


def entry_point() -> list[str]:
    """What every node starts: training/sagemaker_host.py, which becomes the training command."""
    return ["python", "-m", "training.sagemaker_host"]


def arguments(request: Request, channels: Mapping[str, str]) -> list[str]:
    """Return the container's arguments, which end with the training command; `channels` are those of locations."""
    code = [f"--code={request.code}"] if request.code else []
    held = [f"--channel={location}={channel}" for location, channel in channels.items()]
    return [f"--port={RENDEZVOUS_PORT}", *code, *held, "--", *request.command]


def environment(request: Request, roots: Mapping[str, str], job_file: PurePosixPath) -> dict[str, str]:
    """The environment of all nodes; what differs between them is for sagemaker_host.py to find out.

    EFA needs nothing here: SageMaker mounts a node's devices into its container, and the image knows how to use them.
    https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-efa.html (read 2026-11-21)
    """
    allocation = request.allocation
    run = run_directory(request, roots)
    torchrun = many_nodes(
        allocation.nodes,
        allocation.ranks,
        endpoint="",
        run=request.run,
        max_restarts=request.job.life_cycle.process_restarts,
    )
    del torchrun["PET_RDZV_ENDPOINT"]  # what sagemaker_host.py finds out
    variables = {
        **job_environment(job_file, run),
        **platform_environment(request.hand_off, roots),
        **torchrun,
        **logging_to(run / "logs"),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(_KILL_RANKS_AFTER),
        "TRAINWAY_STOPPED_STATUS": str(_STOPPED_STATUS),
    }
    return dict(sorted(variables.items()))


def run_directory(request: Request, roots: Mapping[str, str]) -> PurePosixPath:
    """Where the run's metrics and logs go: to the mounted file system, or where SageMaker copies them from."""
    file_system = PurePosixPath(roots["fsx"])
    mount = PurePosixPath(request.hand_off.file_system.mount_path)
    return file_system / request.directory.relative_to(mount) if file_system.is_absolute() else SYNCED
