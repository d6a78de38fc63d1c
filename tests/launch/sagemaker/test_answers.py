"""SageMaker's answers, made by its API's model: how far a run is, its end, its shells, and refusals."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from tests.launch.conftest import BUCKET
from tests.launch.sagemaker.requests import CATALOGUE, on_sagemaker, request
from trainway.launch import sagemaker
from trainway.launch.sagemaker import SageMakerOptions, submit, watch
from trainway.launch.sagemaker.channels import host_files, on_hosts
from trainway.launch.sagemaker.subnets import usable_subnets
from trainway.launch.target.protocol import Phase, State
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

REGION = "us-west-2"
HANDLE = {"name": "small-1", "region": REGION}
SUBMIT = "trainway.launch.sagemaker.submit"
LIMIT = "The account-level service limit of the nodes is 0 Instances, with current utilization of 0 Instances"
PLAN = f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/autumn"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """SageMaker's answers, each of which its API's model has to allow."""
    make: Any = boto3.client
    client = make("sagemaker", region_name=REGION)
    with Stubber(client) as stubber:
        monkeypatch.setattr(watch, "client", lambda *_: client)
        yield stubber
        stubber.assert_no_pending_responses()


def answer(stubber: Stubber, status: str, secondary: str, **more: Any) -> None:
    now = datetime.now(UTC)
    described = {
        "TrainingJobName": "small-1",
        "TrainingJobArn": f"arn:aws:sagemaker:{REGION}:123456789012:training-job/small-1",
        "ModelArtifacts": {"S3ModelArtifacts": f"s3://{BUCKET}/x"},
        "TrainingJobStatus": status,
        "SecondaryStatus": secondary,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "CreationTime": now,
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2},
        **more,
    }
    stubber.add_response("describe_training_job", described, {"TrainingJobName": "small-1"})


def transition(status: str, message: str) -> dict[str, Any]:
    return {
        "SecondaryStatusTransitions": [{"Status": status, "StartTime": datetime.now(UTC), "StatusMessage": message}]
    }


@pytest.mark.parametrize(
    ("status", "secondary", "more", "expected"),
    [
        ("InProgress", "Pending", {}, State(Phase.QUEUED, "Pending")),
        ("InProgress", "Downloading", {}, State(Phase.STARTING, "Downloading")),
        ("InProgress", "Training", {}, State(Phase.RUNNING, "", ("algo-1", "algo-2"))),
        (
            "InProgress",
            "Starting",
            transition("Starting", "Repairing training cluster due to hardware failure"),
            State(Phase.STARTING, "Repairing training cluster due to hardware failure"),
        ),
        ("Stopping", "Stopping", {}, State(Phase.RUNNING, "Stopping", ("algo-1", "algo-2"))),
        ("Stopped", "MaxRuntimeExceeded", {}, State(Phase.STOPPED, "MaxRuntimeExceeded")),
        ("Stopped", "Stopped", {}, State(Phase.STOPPED)),
        ("Completed", "Completed", {}, State(Phase.SUCCEEDED)),
        ("Failed", "Failed", {"FailureReason": "exit code: 1"}, State(Phase.FAILED, "exit code: 1")),
        (
            "Failed",
            "Failed",
            {
                "FailureReason": "ClientError: API error (404): manifest for r/x:1 not found: manifest unknown",
                "AlgorithmSpecification": {"TrainingImage": "r/x:1", "TrainingInputMode": "File"},
            },
            State(
                Phase.FAILED,
                "SageMaker cannot pull the image r/x:1: API error (404): manifest for r/x:1 not found: manifest "
                "unknown. `trainway explain` says what to change",
            ),
        ),
        (
            "Completed",
            "Completed",
            {"WarmPoolStatus": {"Status": "Available"}},
            State(Phase.SUCCEEDED, "its nodes are kept warm, and billed"),
        ),
        (
            "Completed",
            "Completed",
            {"WarmPoolStatus": {"Status": "Reused", "ReusedByJob": "small-2"}},
            State(Phase.SUCCEEDED, "its warm nodes were taken by small-2"),
        ),
        (
            "Completed",
            "Completed",
            {"WarmPoolStatus": {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 9}},
            State(Phase.SUCCEEDED, "its warm nodes are gone, after 9 billed seconds"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_far_a_run_is(status: str, secondary: str, more: dict[str, Any], expected: State, answers: Stubber) -> None:
    answer(answers, status, secondary, **more)
    assert sagemaker.state(HANDLE) == expected


def test_every_secondary_status_of_the_api_is_known() -> None:
    shape: Any = boto3.client("sagemaker", region_name=REGION).meta.service_model.shape_for("SecondaryStatus")
    assert set(shape.enum) == set(watch._PHASES)


def test_only_a_run_that_goes_on_is_told_to_stop(answers: Stubber) -> None:
    answer(answers, "InProgress", "Training")
    answers.add_response("stop_training_job", {}, {"TrainingJobName": "small-1"})
    sagemaker.stop(HANDLE)
    answer(answers, "Completed", "Completed")
    sagemaker.stop(HANDLE)


def test_a_shell_is_a_session_in_the_nodes_container(answers: Stubber) -> None:
    answer(answers, "InProgress", "Training", RemoteDebugConfig={"EnableRemoteDebug": True})
    command = sagemaker.shell(HANDLE, 1)
    assert command == (
        "aws",
        "ssm",
        "start-session",
        f"--region={REGION}",
        "--target=sagemaker-training-job:small-1_algo-2",
    )


@pytest.mark.parametrize(
    ("secondary", "node", "enabled", "why"),
    [
        ("Pending", 0, True, "it is Pending"),
        ("Training", 2, True, "name one from 0 to 1"),
        ("Training", 0, False, "aws sagemaker update-training-job .* --remote-debug-config EnableRemoteDebug=true"),
    ],
)
def test_where_there_is_no_shell_it_says_why(
    secondary: str, node: int, enabled: bool, why: str, answers: Stubber
) -> None:
    answer(answers, "InProgress", secondary, RemoteDebugConfig={"EnableRemoteDebug": enabled})
    with pytest.raises(UsageError, match=why):
        sagemaker.shell(HANDLE, node)


@pytest.mark.parametrize(
    ("code", "message", "fix", "options"),
    [
        ("ResourceLimitExceeded", LIMIT, "ask for more of `ml.p5.48xlarge for training job usage` in Service", {}),
        ("ResourceLimitExceeded", LIMIT, "of `ml.p5.48xlarge for spot training job usage` in Service", {"spot": True}),
        (
            "ResourceLimitExceeded",
            LIMIT,
            "for training job usage` and `ml.p5.48xlarge for training warm pool usage` in",
            {"warm_minutes": 5},
        ),
        ("ResourceInUse", "Training job names must be unique within an AWS account and region", "launch it again", {}),
        ("AccessDeniedException", "not authorized to perform: iam:PassRole on resource", "you need iam:PassRole", {}),
    ],
)
def test_a_refusal_says_what_to_do(
    code: str,
    message: str,
    fix: str,
    options: dict[str, Any],
    answers: Stubber,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    hand_off: HandOff,
) -> None:
    s3 = boto3.client("s3", region_name=REGION)
    with Stubber(s3) as bucket:
        monkeypatch.setattr(sys.modules[SUBMIT], "client", lambda service, _: s3 if service == "s3" else answers.client)
        monkeypatch.setattr(sys.modules[SUBMIT], "usable_subnets", lambda *_, **__: ["subnet-0"])
        answers.add_client_error("describe_training_job", "ValidationException", "Requested resource not found.")
        launch = request(tmp_path, on_sagemaker(hand_off))
        files = host_files(on_hosts(launch))
        for _ in files:
            bucket.add_response("put_object", {})
        answers.add_client_error("create_training_job", code, message)
        # What was written for the job goes, unless another job has the name.
        for _ in files if code != "ResourceInUse" else ():
            bucket.add_response("delete_object", {})
        with pytest.raises(UsageError, match=fix) as caught:
            submit(launch, CATALOGUE, SageMakerOptions(**options))
        bucket.assert_no_pending_responses()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("us-west-2b", ["subnet-b"]), ("us-west-2d", "has its nodes in us-west-2d")],
)
def test_a_job_starts_in_the_zone_of_its_training_plan(
    zone: str, expected: list[str] | str, answers: Stubber, tmp_path: Path, hand_off: HandOff
) -> None:
    make: Any = boto3.client
    ec2, launch = make("ec2", region_name=REGION), request(tmp_path, on_sagemaker(hand_off))
    described: list[dict[str, Any]] = [
        {
            "SubnetId": f"subnet-{letter}",
            "AvailabilityZone": f"us-west-2{letter}",
            "AvailableIpAddressCount": 100,
        }
        for letter in "abc"
    ]
    capacity = {
        "ReservedCapacityArn": f"arn:aws:sagemaker:{REGION}:123456789012:reserved-capacity/{'a' * 12}",
        "InstanceType": "ml.p5.48xlarge",
        "TotalInstanceCount": 4,
        "Status": "Active",
        "AvailabilityZone": zone,
    }
    plan = {"TrainingPlanArn": PLAN, "TrainingPlanName": "autumn", "Status": "Active"}
    answers.add_response(
        "describe_training_plan", {**plan, "ReservedCapacitySummaries": [capacity]}, {"TrainingPlanName": "autumn"}
    )
    with Stubber(ec2) as network:
        network.add_response("describe_subnets", {"Subnets": described})
        asked = (launch, CATALOGUE["p5.48xlarge"], [each["SubnetId"] for each in described], PLAN)
        if isinstance(expected, str):
            with pytest.raises(UsageError, match=expected):
                usable_subnets(*asked, ec2=ec2, sagemaker=answers.client)
        else:
            assert usable_subnets(*asked, ec2=ec2, sagemaker=answers.client) == expected


def test_a_run_that_goes_on_is_not_submitted_again(
    answers: Stubber, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hand_off: HandOff
) -> None:
    monkeypatch.setattr(sys.modules[SUBMIT], "client", lambda *_: answers.client)
    monkeypatch.setattr(sys.modules[SUBMIT], "usable_subnets", lambda *_, **__: ["subnet-0"])
    answer(answers, "InProgress", "Training")
    with pytest.raises(UsageError, match="is InProgress"):
        submit(request(tmp_path, on_sagemaker(hand_off)), CATALOGUE)


def test_without_credentials_nothing_is_submitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hand_off: HandOff
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(UsageError, match="whether this shell has credentials"):
        submit(request(tmp_path, on_sagemaker(hand_off)), CATALOGUE)
