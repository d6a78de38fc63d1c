"""What a training job runs on, and for how long."""

from __future__ import annotations

import functools
from typing import Any

from trainway.launch.program.request import Request
from trainway.launch.sagemaker.options import DAY_MINUTES, DEFAULT_VOLUME_GB, SageMakerOptions, cannot
from trainway.spec.errors import usage_error
from trainway.spec.facts.instance import Instance
from trainway.spec.handoff import TrainingJobs

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_VpcConfig.html (read 2026-11-23)
_MOST_SUBNETS = 16


def instance_type(request: Request) -> str:
    """Return SageMaker's name of the instance type. Raises UsageError if SageMaker has no training jobs on it."""
    name = f"ml.{request.allocation.group.instance_type}"
    if name not in _offered():
        why = f"SageMaker's API knows no {name} for training jobs"
        raise cannot(request, why, "name another node group with --group, or launch on the platform's own nodes")
    return name


def training_jobs(request: Request) -> TrainingJobs:
    """Return the role and the network of training jobs. Raises UsageError if the platform has none."""
    found = request.hand_off.training_jobs
    if found is None:
        raise usage_error(
            f"{request.program.name} cannot be launched on SageMaker",
            why=f"{request.hand_off.platform} has no role for training jobs",
            fix="set iam.training_jobs of the platform file to true, and deploy",
        )
    return found


def role_arn(request: Request, team: str | None) -> str:
    """Return the ARN of the training job's IAM role: the own role of the team, or the role of the platform."""
    jobs = training_jobs(request)
    return jobs.team_role_arns.get(team, jobs.role_arn) if team else jobs.role_arn


def resource_config(request: Request, options: SageMakerOptions, instance: Instance) -> dict[str, Any]:
    """Return the nodes of the job, as `ResourceConfig`."""
    config: dict[str, Any] = {"InstanceType": instance_type(request), "InstanceCount": request.allocation.nodes}
    if not instance.instance_store:
        config["VolumeSizeInGB"] = options.volume_gb or DEFAULT_VOLUME_GB
    if options.volume_key:
        config["VolumeKmsKeyId"] = options.volume_key
    if options.warm_minutes:
        config["KeepAlivePeriodInSeconds"] = options.warm_minutes * 60
    if options.training_plan:
        config["TrainingPlanArn"] = options.training_plan
    return config


def vpc_config(request: Request, options: SageMakerOptions) -> dict[str, Any]:
    """Return the VpcConfig of a training job: subnets of node groups, and the security groups of the nodes.

    SageMaker looks for capacity in the Availability Zones of all subnets. A job that mounts the file system stays in
    the subnet of its node group, beside the file system. The security groups allow EFA traffic between nodes, and
    Lustre traffic to the file system.
    """
    jobs = training_jobs(request)
    own = jobs.subnet_ids[request.allocation.group.name]
    others = () if options.data == "fsx" else sorted(set(jobs.subnet_ids.values()) - {own})
    return {"Subnets": [own, *others][:_MOST_SUBNETS], "SecurityGroupIds": list(jobs.security_group_ids)}


def stopping_condition(options: SageMakerOptions) -> dict[str, int]:
    """Return how long the job may run and wait. SIGTERM comes before either time ends the job.

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
    """Return the instance types of training jobs in botocore's model of the API."""
    import botocore.session

    shape: Any = botocore.session.get_session().get_service_model("sagemaker").shape_for("TrainingInstanceType")
    return frozenset(shape.enum)
