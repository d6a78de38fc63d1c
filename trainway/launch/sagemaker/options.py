"""Options of `trainway launch --target sagemaker`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from trainway.launch.program.request import Request, check_life_cycle
from trainway.launch.target.options import Flag
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.instance import Instance

DataFrom = Literal["s3", "fast-file", "file", "fsx"]
DATA: tuple[DataFrom, ...] = get_args(DataFrom)

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html: what MaxRuntimeInSeconds is by
# default and at most, and the range of MaxPendingTimeInSeconds.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RetryStrategy.html
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html, KeepAlivePeriodInSeconds
# (all read 2026-11-21)
DAY_MINUTES = 24 * 60
MOST_MINUTES = 28 * DAY_MINUTES
LEAST_PENDING_MINUTES = 30
MOST_RETRIES = 30
MOST_WARM_MINUTES = 360
# The disk holds as many shards from S3 as the job file's data.shuffle_shards says, or all that `--data file` copies.
# Checkpoints and shards on the file system are not on it.
DEFAULT_VOLUME_GB = 200
# A job's name has 63 characters, of which a start after the first takes `-start-<number>` (submit.py).
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html (read 2026-11-21)
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,51}")


@dataclass(frozen=True)
class SageMakerOptions:
    """Options of one training job.

    `data`: how the job reads its tokens. With `s3`, the job fetches shards itself, a few ahead. With `fast-file`,
    SageMaker streams each object when the job reads it. With `file`, SageMaker copies all objects before the job
    starts. With `fsx`, the platform's file system is mounted, and `fsx:` locations of checkpoints are on it.

    `time_limit_minutes`: save a checkpoint and end the job after this time, over all attempts; None is a day.
    `wait_minutes`: wait this long for nodes; None is SageMaker's limit, or a day with `spot`. `retries`: number of
    attempts after internal errors of SageMaker. `spot`: use Spot instances. SageMaker restarts the job after an
    interruption. `training_plan`: ARN of a training plan whose nodes the job uses. `warm_minutes`: keep the nodes,
    which are billed, for the next job. `volume_gb`: size of each node's disk, for an instance type without a disk of
    its own. `volume_key`: ARN of the KMS key that encrypts the disk. The role of the jobs must be allowed to use it.
    `encrypt_traffic`: encrypt the traffic between nodes, which is slower. `check_nodes`: let SageMaker test GPUs and
    network before the job. `shell`: let `trainway shell` open a shell in a container.
    """

    data: Annotated[
        DataFrom,
        Flag(
            "How the job reads its data: directly from the bucket (s3), from the bucket through SageMaker (fast-file), "
            "from a copy that SageMaker makes first (file), or from the file system (fsx). Default: s3."
        ),
    ] = "s3"
    time_limit_minutes: Annotated[
        int | None,
        Flag(
            f"Save a checkpoint and end the job after this time. Default: {DAY_MINUTES}.",
            name="time_limit",
            metavar="MINUTES",
            least=1,
        ),
    ] = None
    spot: Annotated[
        bool, Flag("Use Spot instances. SageMaker restarts the job from its checkpoint after an interruption.")
    ] = False
    wait_minutes: Annotated[
        int | None,
        Flag(
            f"Wait at most this long for nodes. Default: SageMaker's limit; {DAY_MINUTES} with --spot.",
            name="wait",
            metavar="MINUTES",
        ),
    ] = None
    retries: Annotated[
        int, Flag("Retry the job up to N times after an internal error of SageMaker. Default: 3.", metavar="N")
    ] = 3
    warm_minutes: Annotated[
        int,
        Flag(
            "Keep the nodes this long for the next job. They are billed. Default: 0.",
            name="keep_warm",
            metavar="MINUTES",
        ),
    ] = 0
    training_plan: Annotated[str | None, Flag("Use the nodes of this training plan.", metavar="ARN")] = None
    volume_gb: Annotated[
        int | None,
        Flag(
            f"Disk of each node, for an instance type without instance store. Default: {DEFAULT_VOLUME_GB}.",
            metavar="GB",
        ),
    ] = None
    volume_key: Annotated[str | None, Flag("Encrypt the disk of --volume-gb with this KMS key.", metavar="ARN")] = None
    encrypt_traffic: Annotated[bool, Flag("Encrypt the traffic between nodes, which is slower.")] = False
    check_nodes: Annotated[
        bool, Flag("Let SageMaker test GPUs and network before the job. Default: --check-nodes.")
    ] = True
    shell: Annotated[bool, Flag("Let `trainway shell` open a shell in the run's containers.")] = False


def check_options(request: Request, options: SageMakerOptions, instance: Instance) -> None:
    """Raise UsageError for an option that SageMaker, or the instance type, does not support."""
    if not _NAME.fullmatch(request.run):
        why = f"its run is called {request.run}, and SageMaker takes 52 letters, digits and hyphens between them"
        raise cannot(request, why, "name the run with --run")
    if options.data == "fsx" and request.hand_off.file_system is None:
        why = f"{request.hand_off.platform} has no file system: `storage.lustre` of its platform file is null"
        raise cannot(request, why, "leave --data out, or use --data file")
    check_life_cycle(
        request,
        "SageMaker",
        restarts="SageMaker starts a training job again after its own errors (--retries), and not when the run fails",
        keep="SageMaker keeps its record of a training job",
    )
    if options.time_limit_minutes is not None:
        _in_range(request, "time limit", options.time_limit_minutes, 1, MOST_MINUTES, "minutes")
    _in_range(request, "number of retries", options.retries, 0, MOST_RETRIES, "")
    _in_range(request, "time that nodes are kept warm", options.warm_minutes, 0, MOST_WARM_MINUTES, "minutes")
    if options.wait_minutes is not None:
        least = 0 if options.spot else LEAST_PENDING_MINUTES
        _in_range(request, "time that it may wait for nodes", options.wait_minutes, least, MOST_MINUTES, "minutes")
    if options.spot and options.warm_minutes:
        # https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html (Considerations, read 2026-11-21)
        raise cannot(request, "nodes that may be taken back are not kept warm", "leave one of the two out")
    if options.spot and options.training_plan:
        raise cannot(request, "the nodes of a training plan are reserved, and not spot", "leave one of the two out")
    if instance.instance_store and (options.volume_gb or options.volume_key):
        # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html (read 2026-11-21)
        why = f"{instance.name} has disks of its own, which its hardware encrypts, and SageMaker adds none"
        raise cannot(request, why, "leave the volume out")


def cannot(request: Request, why: str, fix: str) -> UsageError:
    """Return the error for a job that cannot be launched as a training job with these options."""
    return usage_error(f"{request.program.name} cannot be launched on SageMaker like that", why=why, fix=fix)


def _in_range(request: Request, what: str, value: int, least: int, most: int, unit: str) -> None:
    if not least <= value <= most:
        unit = f" {unit}" if unit else ""
        raise cannot(request, f"the {what} is {value}{unit}", f"choose {least} to {most}{unit}")
