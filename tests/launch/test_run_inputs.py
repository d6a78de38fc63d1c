"""An input in S3 that is absent is said before a run is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber

from tests.launch.foreign import write_foreign_job
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.program import Program
from trainway.launch.starting.job_checks import check_inputs
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff


@pytest.fixture(autouse=True)
def _s3(hand_off: HandOff, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The platform's bucket with a corpus and a file, and a bucket without objects."""
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        for bucket in (hand_off.bucket, "empty"):
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=hand_off.bucket, Key="corpus/legal/0.jsonl", Body=b"{}")
        s3.put_object(Bucket=hand_off.bucket, Key="weights.safetensors", Body=b"")
        yield


def reading(directory: Path, *locations: str) -> Program:
    return replace(load_program(write_foreign_job(directory)), inputs=locations)


def test_what_is_there_is_read(hand_off: HandOff, tmp_path: Path) -> None:
    there = ("s3:/corpus/legal", "s3:/corpus/", "s3:/weights.safetensors", f"s3://{hand_off.bucket}")
    check_inputs(reading(tmp_path, *there, "fsx:/nobody/looks/here", "/neither/here"), hand_off)


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("s3:/corpus/leg", "has no object corpus/leg, and none below corpus/leg/"),
        ("s3://empty", "the bucket empty is empty"),
        ("s3://nobody/corpus", "there is no bucket nobody"),
    ],
)
def test_what_is_absent_is_said_with_the_command_that_copies_it(
    location: str, why: str, hand_off: HandOff, tmp_path: Path
) -> None:
    program = reading(tmp_path, location)
    with pytest.raises(UsageError) as said:
        check_inputs(program, hand_off)
    uri = location if location.startswith("s3://") else f"s3://{hand_off.bucket}{location.removeprefix('s3:')}"
    assert f"{program.name} cannot read its input {location}" in str(said.value)
    assert why in str(said.value) and f"aws s3 sync DIRECTORY {uri}" in str(said.value)


def test_what_a_person_may_not_list_is_left_to_the_run_with_a_warning(
    hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = boto3.client("s3", region_name=hand_off.region)
    with Stubber(client) as stub:
        stub.add_client_error("list_objects_v2", "AccessDenied", "you may not", 403)
        monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
        check_inputs(reading(tmp_path, "s3:/corpus/absent"), hand_off)
        stub.assert_no_pending_responses()
    uri = f"s3://{hand_off.bucket}/corpus/absent"
    assert f"the input {uri} exists, because it cannot be read: you may not" in capsys.readouterr().err
