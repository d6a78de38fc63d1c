"""Runs are submitted to an emulated SageMaker, and their logs read from an emulated CloudWatch."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import running
from tests.launch.conftest import BUCKET
from tests.launch.sagemaker.requests import CATALOGUE, on_sagemaker, request
from trainway.launch import sagemaker
from trainway.launch.sagemaker import SageMakerOptions, submit
from trainway.launch.sagemaker.logs import GROUP
from trainway.launch.target.protocol import Handle, Phase, State
from trainway.launch.target.wanted_lines import WantedLines
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

REGION = "us-west-2"


@pytest.fixture(scope="module")
def aws() -> Iterator[Any]:
    """Makes clients of an emulated AWS that has the platform's bucket, to which this process's environment points."""
    with running(region=REGION) as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        make: Any = boto3.client
        make("s3", region_name=REGION).create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield lambda service: make(service, region_name=REGION)


@pytest.fixture(scope="module")
def subnets(aws: Any) -> dict[str, str]:
    """Two subnets of the platform, the second with 3 free addresses of its own: of 8, AWS keeps 5."""
    ec2 = aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    blocks = {"train": ("10.0.0.0/24", "us-west-2a"), "small": ("10.0.1.0/29", "us-west-2b")}
    return {
        name: ec2.create_subnet(VpcId=vpc, CidrBlock=block, AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for name, (block, zone) in blocks.items()
    }


def test_subnets_without_addresses_for_all_nodes_are_left_out(
    aws: Any, subnets: dict[str, str], tmp_path: Path, hand_off: HandOff
) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off, subnets=subnets), run="addresses")
    submit(launch, CATALOGUE)
    made = aws("sagemaker").describe_training_job(TrainingJobName="addresses")
    assert made["VpcConfig"]["Subnets"] == [subnets["train"]], "a P5 node takes 5 addresses, and 3 are free"
    only_small = {"train": subnets["small"]}
    launch = request(tmp_path, on_sagemaker(hand_off, subnets=only_small), run="nowhere")
    with pytest.raises(
        UsageError, match=rf"1 nodes take 5 addresses of a subnet, and these are free: {subnets['small']} 3"
    ):
        submit(launch, CATALOGUE)


def test_a_run_is_submitted_with_its_job_file_and_looked_at(
    aws: Any, subnets: dict[str, str], tmp_path: Path, hand_off: HandOff
) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off, subnets=subnets), run="first")
    assert sagemaker.TARGET.find is not None
    assert sagemaker.TARGET.find(launch, SageMakerOptions()) is None
    handle = submit(launch, CATALOGUE, SageMakerOptions(shell=True))
    assert handle == {"name": "first", "region": REGION}
    assert sagemaker.TARGET.find(launch, SageMakerOptions()) == handle
    body = aws("s3").get_object(Bucket=BUCKET, Key="runs/first/job/job.yaml")["Body"].read()
    assert body.decode() == launch.job_text
    made = aws("sagemaker").describe_training_job(TrainingJobName="first")
    assert made["ResourceConfig"]["InstanceType"] == "ml.p5.48xlarge"
    # The emulated SageMaker is done with a job at once.
    assert sagemaker.state(handle) == State(Phase.SUCCEEDED)
    sagemaker.stop(handle)


def test_a_run_that_has_ended_is_submitted_again_under_the_next_name(
    aws: Any, subnets: dict[str, str], tmp_path: Path, hand_off: HandOff
) -> None:
    launch = request(tmp_path, on_sagemaker(hand_off, subnets=subnets), run="again")
    names = [submit(launch, CATALOGUE)["name"] for _ in range(3)]
    assert names == ["again", "again-start-2", "again-start-3"]
    described = aws("sagemaker").describe_training_job(TrainingJobName="again-start-3")
    assert described["OutputDataConfig"]["S3OutputPath"] == f"s3://{BUCKET}/runs/again/output"


@pytest.mark.usefixtures("aws")
def test_a_run_that_sagemaker_does_not_know_is_gone() -> None:
    assert sagemaker.state({"name": "nobody", "region": REGION}) == State(Phase.GONE)


@pytest.mark.usefixtures("aws")
def test_a_bucket_that_is_not_there_is_explained(subnets: dict[str, str], tmp_path: Path, hand_off: HandOff) -> None:
    elsewhere = on_sagemaker(hand_off, subnets=subnets).model_copy(update={"bucket": "gone"})
    with pytest.raises(UsageError, match="NoSuchBucket"):
        submit(request(tmp_path, elsewhere, run="nowhere", data={"train": "s3:/corpus/web"}), CATALOGUE)


def write_log(aws: Any, stream: str, *lines: str, before: float = 0) -> None:
    """Write lines into a stream, of which the last one is so many seconds old."""
    cloudwatch = aws("logs")
    for make in (
        lambda: cloudwatch.create_log_group(logGroupName=GROUP),
        lambda: cloudwatch.create_log_stream(logGroupName=GROUP, logStreamName=stream),
    ):
        with contextlib.suppress(cloudwatch.exceptions.ResourceAlreadyExistsException):
            make()
    # None in the future: CloudWatch sorts by time, and what is written next is to be after these.
    first = int((datetime.now(UTC).timestamp() - before) * 1000) - len(lines)
    events = [{"timestamp": first + index, "message": line} for index, line in enumerate(lines)]
    cloudwatch.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)


def test_logs_are_of_all_nodes_and_starts_and_of_no_agent(aws: Any) -> None:
    write_log(aws, "told/algo-2-1700000000", "[default7]:late", before=200)
    write_log(aws, "told/algo-10-1700000000", "[default0]:last", before=100)
    write_log(aws, "told/algo-1-1700000900", "[default0]:step=2/9", before=300)
    started = ("W1122 torchrun says", "[default0]:step=1/9", "[default1]: two")
    write_log(aws, "told/algo-1-1700000000", *started, before=400)
    write_log(aws, "told/algo-1-1700000000/ssm", "an agent")
    write_log(aws, "told-2/algo-1-1700000000", "another job")
    assert list(sagemaker.logs({"name": "told", "region": REGION}, follow=False)) == [
        "[0 -] W1122 torchrun says",
        "[0 0] step=1/9",
        "[0 1] two",
        "[0 0] step=2/9",
        "[1 7] late",
        "[9 0] last",
    ]


def test_lines_of_all_nodes_are_in_the_order_of_their_times_and_can_be_chosen(aws: Any) -> None:
    write_log(aws, "timed/algo-1-1700000000", "[default0]:a", before=4000)
    write_log(aws, "timed/algo-2-1700000000", "[default0]:b", "[default1]:c", before=3000)
    write_log(aws, "timed/algo-1-1700000900", "[default0]:d", "[default0]:e", before=20)
    write_log(aws, "timed/algo-2-1700000900", "[default1]:f", before=10)

    def read(wanted: WantedLines) -> list[str]:
        return list(sagemaker.logs({"name": "timed", "region": REGION}, follow=False, wanted=wanted))

    assert read(WantedLines()) == ["[0 0] a", "[1 0] b", "[1 1] c", "[0 0] d", "[0 0] e", "[1 1] f"]
    assert read(WantedLines(since_seconds=600)) == ["[0 0] d", "[0 0] e", "[1 1] f"]
    assert read(WantedLines(attempt=1, node="1")) == ["[1 0] b", "[1 1] c"]
    assert read(WantedLines(attempt=3)) == [] == read(WantedLines(node="7"))
    assert read(WantedLines(rank=1)) == ["[1 1] c", "[1 1] f"]
    assert read(WantedLines(tail=1)) == ["[0 0] a", "[1 1] c", "[0 0] e", "[1 1] f"]


@pytest.mark.usefixtures("aws")
def test_a_job_without_a_log_has_no_lines() -> None:
    assert list(sagemaker.logs({"name": "silent", "region": REGION}, follow=False)) == []


def test_followed_logs_go_on_until_the_run_has_ended(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(aws, "long/algo-1-1700000000", *(f"[default0]:step={step}/9000" for step in range(1, 101)))
    looks = iter([Phase.RUNNING, Phase.RUNNING])

    def state(_: Handle) -> State:
        phase = next(looks, Phase.SUCCEEDED)
        if phase is Phase.SUCCEEDED:
            write_log(aws, "long/algo-1-1700000000", "[default0]:end step=9000/9000")
        return State(phase)

    module = sys.modules["trainway.launch.sagemaker.logs"]
    monkeypatch.setattr(module, "state", state)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.01)
    read = list(sagemaker.logs({"name": "long", "region": REGION}, follow=True))
    assert read == [*(f"[0 0] step={step}/9000" for step in range(1, 101)), "[0 0] end step=9000/9000"]
