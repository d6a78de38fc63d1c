"""A request as SageMaker's CreateTrainingJob.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html (read 2026-11-21)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainway.launch.program.request import Request
from trainway.launch.sagemaker.channels import JOB_FILE, inputs, on_hosts
from trainway.launch.sagemaker.container import arguments, check_starter, entry_point, environment
from trainway.launch.sagemaker.options import SageMakerOptions, check_options
from trainway.launch.sagemaker.resources import resource_config, role_arn, stopping_condition, vpc_config
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.jobs.training_job_tags import PLATFORM_TAG, RUN_TAG, TEAM_TAG


def render_request(request: Request, catalogue: Catalogue, options: SageMakerOptions | None = None) -> dict[str, Any]:
    """Return the parameters of CreateTrainingJob. Raises UsageError for an unsupported option or job.

    Of a run that is started again, submitting changes the name, and nothing else. The job finds its newest checkpoint
    itself, whoever starts it again: SageMaker after it has repaired the nodes or got new spot ones, or a person.
    https://docs.aws.amazon.com/sagemaker/latest/dg/model-checkpoints-cluster-repair.html (read 2026-11-21)
    """
    options = options or SageMakerOptions()
    instance = catalogue[request.allocation.group.instance_type]
    check_options(request, options, instance)
    check_starter(request)
    on_nodes = on_hosts(request)
    data = inputs(request, on_nodes, options)
    rendered: dict[str, Any] = {
        "TrainingJobName": request.run,
        "AlgorithmSpecification": {
            "TrainingImage": request.image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": entry_point(),
            "ContainerArguments": arguments(request, on_nodes, data.channels),
            "MetricDefinitions": [{"Name": name, "Regex": regex} for name, regex in request.program.metrics],
        },
        "RoleArn": role_arn(request, on_nodes.paths.team),
        "InputDataConfig": data.configuration,
        # The job leaves nothing in /opt/ml/model, but the parameter is required.
        "OutputDataConfig": {"S3OutputPath": f"{on_nodes.location}/output"},
        "ResourceConfig": resource_config(request, options, instance),
        "VpcConfig": vpc_config(request, options),
        "StoppingCondition": stopping_condition(options),
        "Environment": environment(
            request,
            on_nodes,
            data.roots,
            data.channels,
            JOB_FILE,
            repaired=instance.accelerator is not None,
            streamed=options.data == "fast-file",
        ),
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": options.encrypt_traffic,
        "EnableManagedSpotTraining": options.spot,
        "RemoteDebugConfig": {"EnableRemoteDebug": options.shell},
        "Tags": _tags(request, on_nodes.paths.team),
    }
    if options.retries:
        rendered["RetryStrategy"] = {"MaximumRetryAttempts": options.retries}
    if options.check_nodes and instance.accelerator:
        rendered["InfraCheckConfig"] = {"EnableInfraCheck": True}
    return rendered


def as_json(rendered: Mapping[str, Any]) -> str:
    """Return the request as `aws sagemaker create-training-job --cli-input-json` accepts it."""
    return json.dumps(rendered, indent=2) + "\n"


def _tags(request: Request, team: str | None) -> list[dict[str, str]]:
    """Return the job's tags."""
    tags = {PLATFORM_TAG: request.hand_off.platform, RUN_TAG: request.run}
    if team:
        tags[TEAM_TAG] = team
    return [{"Key": key, "Value": value} for key, value in tags.items()]
