"""What a training job runs on, and for how long."""

from __future__ import annotations

import functools
from typing import Any

from trainway.launch.request import Request
from trainway.launch.sagemaker.options import DAY_MINUTES, SageMakerOptions, cannot
from trainway.spec.errors import usage_error
from trainway.spec.handoff import TrainingJobs
from trainway.spec.instance import Instance

# Of types that have no disks of their own. Checkpoints and shards of the file system do not go there; shards from S3
# do, as many as the job file's data.shuffle_shards, and all of what `--data file` copies.
_VOLUME_GB = 200


def instance_type(request: Request) -> str:
    """SageMaker's name of the allocation's type; raises UsageError where it runs no training on such nodes."""
    name = f"ml.{request.allocation.group.instance_type}"
    if name not in _offered():
        why = f"SageMaker's API knows no {name} for training jobs"
        raise cannot(request, why, "name another node group with --group, or launch on the platform's own nodes")
    return name


def training_jobs(request: Request) -> TrainingJobs:
    """The role and network of training jobs; raises UsageError where the platform was deployed without them."""
    found = request.hand_off.training_jobs
    if found is None:
        raise usage_error(
            f"{request.job.name} cannot be launched on SageMaker",
            why=f"{request.hand_off.platform} has no role for training jobs",
            fix="set iam.training_jobs of the platform file to true, and deploy",
        )
    return found


def resource_config(request: Request, options: SageMakerOptions, instance: Instance) -> dict[str, Any]:
    """The nodes of the job."""
    config: dict[str, Any] = {"InstanceType": instance_type(request), "InstanceCount": request.allocation.nodes}
    if not instance.instance_store:
        config["VolumeSizeInGB"] = options.volume_gb or _VOLUME_GB
    if options.volume_key:
        config["VolumeKmsKeyId"] = options.volume_key
    if options.warm_minutes:
        config["KeepAlivePeriodInSeconds"] = options.warm_minutes * 60
    if options.training_plan:
        config["TrainingPlanArn"] = options.training_plan
    return config


def vpc_config(request: Request) -> dict[str, Any]:
    """Where its nodes are: in the subnet of the node group, which is in the zone of the capacity, near the data.

    The security groups are those of the platform's nodes, which let EFA's traffic through between themselves, and
    Lustre's to the file system.
    """
    jobs = training_jobs(request)
    return {
        "Subnets": [jobs.subnet_ids[request.allocation.group.name]],
        "SecurityGroupIds": list(jobs.security_group_ids),
    }


def stopping_condition(options: SageMakerOptions) -> dict[str, int]:
    """How long it runs and waits; SIGTERM comes before either ends it.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html (read 2026-11-21)
    """
    limit = DAY_MINUTES if options.time_limit_minutes is None else options.time_limit_minutes
    seconds = {"MaxRuntimeInSeconds": limit * 60}
    if options.spot:
        wait = DAY_MINUTES if options.wait_minutes is None else options.wait_minutes
        seconds["MaxWaitTimeInSeconds"] = (limit + wait) * 60
    elif options.wait_minutes is not None:
        seconds["MaxPendingTimeInSeconds"] = options.wait_minutes * 60
    return seconds


@functools.cache
def _offered() -> frozenset[str]:
    """The types that the API's model in botocore has for training jobs."""
    import botocore.session

    shape: Any = botocore.session.get_session().get_service_model("sagemaker").shape_for("TrainingInstanceType")
    return frozenset(shape.enum)
