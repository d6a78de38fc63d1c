"""What a launch on SageMaker may say beside the job file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from trainway.launch.life_cycle import check_life_cycle
from trainway.launch.request import Request
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.instance import Instance

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
# A job's name has 63 characters, of which a start after the first takes `-start-<number>` (submit.py).
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html (read 2026-11-21)
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,51}")


@dataclass(frozen=True)
class SageMakerOptions:
    """How one run is submitted.

    `data`: from where the job reads its tokens. `s3`: it fetches shards itself, a few ahead; `fast-file`: SageMaker
    streams the objects as they are read; `file`: SageMaker copies all of them before the job starts; `fsx`: the
    platform's file system is mounted, checkpoints of `fsx:` locations and the run's directory too.

    `time_limit_minutes`: when it ends in any case, all starts together, with a checkpoint; None is SageMaker's own, a
    day. `wait_minutes`: how long it may wait for nodes; None is as long as SageMaker lets it, and a day with `spot`.
    `retries`: starts after an error of SageMaker's own. `spot`: on nodes that may be taken back, from which it starts
    again. `training_plan`: the ARN of a plan whose nodes it uses. `warm_minutes`: how long its nodes are kept, and paid
    for, for the next job. `volume_gb`: each node's disk, where the type has none of its own; `volume_key`: the KMS key
    that encrypts it, which the jobs' role must be allowed to use. `encrypt_traffic`: between nodes, which is slower.
    `check_nodes`: SageMaker tests GPUs and network first.
    `shell`: whether `trainway shell` may open one. `code`: an archive that `trainway sync` uploaded, which comes before
    the image's own code.
    """

    data: DataFrom = "s3"
    time_limit_minutes: int | None = None
    wait_minutes: int | None = None
    retries: int = 3
    spot: bool = False
    training_plan: str | None = None
    warm_minutes: int = 0
    volume_gb: int | None = None
    volume_key: str | None = None
    encrypt_traffic: bool = False
    check_nodes: bool = True
    shell: bool = False
    code: str | None = None


def check_options(request: Request, options: SageMakerOptions, instance: Instance) -> None:
    """Raises UsageError for what SageMaker, or the type of the nodes, does not do."""
    if not _NAME.fullmatch(request.run):
        why = f"its run is called {request.run}, and SageMaker takes 52 letters, digits and hyphens between them"
        raise cannot(request, why, "name the run with --run")
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
    """The error for a job that cannot be a training job like that."""
    return usage_error(f"{request.job.name} cannot be launched on SageMaker like that", why=why, fix=fix)


def _in_range(request: Request, what: str, value: int, least: int, most: int, unit: str) -> None:
    if not least <= value <= most:
        unit = f" {unit}" if unit else ""
        raise cannot(request, f"the {what} is {value}{unit}", f"choose {least} to {most}{unit}")
