"""Requests to AWS, read whole by the services' API models: names, types, enumerations, patterns, and limits.

Every boto3 client in the test suite is read in this way (see `tests/conftest.py`). This file reads what no client sends
in a test: the requests that CloudFormation makes of a template, and training jobs of every instance type.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.launch.conftest import make_hand_off
from tests.launch.sagemaker.requests import CATALOGUE, on_sagemaker, request
from tests.seams.api_requests import REQUESTS, problems
from tests.seams.resolved import deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms, some_and_all_platforms
from tests.service_model import problems as request_problems
from trainway.launch.sagemaker import render_request
from trainway.spec.errors import UsageError

Properties = dict[str, Any]


@pytest.mark.parametrize("names", some_and_all_platforms())
def test_the_apis_take_what_the_templates_say(names: tuple[str, ...]) -> None:
    refused, read = {}, Counter[str]()
    for platform, resources in deployed(names).items():
        for kind in REQUESTS:
            for (role, name), properties in resources.of_type(kind).items():
                read[kind] += 1
                if found := problems(kind, properties):
                    refused[f"{platform}/{role}/{name} {kind}"] = found
    print(f"{read.total()} resources of {len(read)} types")
    if set(names) == set(platforms()):
        assert set(read) == set(REQUESTS), "a type that no platform has is read by nobody"
    assert len(read) > 20
    assert not refused


def training_jobs(directory: Path) -> Iterator[tuple[str, Properties]]:
    """Yield an instance type and a training job on it, for each type of the platforms that runs training jobs."""
    for name in sorted(
        {each for platform in platforms().values() for group in platform.node_groups for each in group.instance_types}
    ):
        try:
            launch = request(directory, on_sagemaker(make_hand_off(), instance_type=name), nodes=2)
            yield name, render_request(launch, CATALOGUE)
        except UsageError:
            continue  # `trainway launch` says so


def test_sagemaker_takes_a_training_job_on_every_instance_type(tmp_path: Path) -> None:
    read = {name: request_problems("sagemaker", "CreateTrainingJob", job) for name, job in training_jobs(tmp_path)}
    assert "p5.48xlarge" in read
    assert {name: found for name, found in read.items() if found} == {}


def test_a_request_that_botocore_would_send_and_aws_refuse_fails_a_test() -> None:
    sagemaker = boto3.client("sagemaker", region_name="us-west-2", endpoint_url="http://localhost:1")
    with pytest.raises(AssertionError, match="no_underscores"):
        sagemaker.describe_training_job(TrainingJobName="no_underscores")


def of_a_template(
    error: str, kind: str, change: Callable[[Properties], None], name: str = "hyperpod-eks-shared"
) -> Planted:
    """Plant an error in the first resource of a type."""

    def read(change: Callable[[Properties], None] | None, _: Path) -> list[str]:
        properties = copy.deepcopy(next(iter(deployed_of(name).of_type(kind).values())))
        if change:
            change(properties)
        return problems(kind, properties)

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def of_a_job(error: str, change: Callable[[Properties], None]) -> Planted:
    """Plant an error in a training job."""

    def read(change: Callable[[Properties], None] | None, directory: Path) -> list[str]:
        job = dict(training_jobs(directory))["p5.48xlarge"]
        if change:
            change(job)
        return request_problems("sagemaker", "CreateTrainingJob", job)

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


SEAMS = (
    Seam(
        artifact="Requests of CloudFormation to EKS, SageMaker, FSx, EC2, CodePipeline, and others",
        rendered_by="stacks",
        reader="the API models of botocore, with patterns, enumerations, and limits",
        instead="The services run only in AWS. The models are what AWS generates its SDKs from.",
        planted=(
            of_a_template(
                "a HyperPod instance group has a name that the API refuses",
                "AWS::SageMaker::Cluster",
                lambda it: it["InstanceGroups"][0].update(InstanceGroupName="train_group"),
            ),
            of_a_template(
                "a HyperPod instance group has a field that the API does not have",
                "AWS::SageMaker::Cluster",
                lambda it: it["InstanceGroups"][0].update(LifecycleConfig={}),
            ),
            of_a_template(
                "a compute quota has a weight beyond the limit",
                "AWS::SageMaker::ComputeQuota",
                lambda it: it["ComputeQuotaTarget"].update(FairShareWeight=101),
            ),
            of_a_template("the file system has no subnets", "AWS::FSx::FileSystem", lambda it: it.pop("SubnetIds")),
            of_a_template(
                "an add-on resolves conflicts in a way that does not exist",
                "AWS::EKS::Addon",
                lambda it: it.update(ResolveConflicts="REPLACE"),
            ),
        ),
    ),
    Seam(
        artifact="SageMaker training jobs",
        rendered_by="trainway/launch/sagemaker/render.py",
        reader="the API model of botocore, with patterns, enumerations, and limits",
        instead="SageMaker runs only in AWS.",
        planted=(
            of_a_job("the job has a field that the API does not have", lambda it: it.update(Nodes=2)),
            of_a_job(
                "the instance type is not one of SageMaker's",
                lambda it: it["ResourceConfig"].update(InstanceType="p5.48xlarge"),
            ),
            of_a_job("the input mode is left out", lambda it: it["AlgorithmSpecification"].pop("TrainingInputMode")),
            of_a_job("the run's name has an underscore", lambda it: it.update(TrainingJobName="llama_8b")),
        ),
    ),
)
