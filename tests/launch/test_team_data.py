"""What a launch knows of the prefixes of a team: where its runs are, and which locations its jobs can use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.launch.conftest import write_job
from tests.launch.sagemaker.requests import CATALOGUE, on_sagemaker, request
from trainway.launch.job_file.programs import load_program, program_of
from trainway.launch.job_file.training_program import with_checkpoints_of_team
from trainway.launch.platform.locations import check_team_data, code_prefix, run_path
from trainway.launch.program.on_checkpoint import STEP
from trainway.launch.program.program import Program
from trainway.launch.sagemaker.render import render_request
from trainway.launch.starting.code import sync
from trainway.launch.starting.recorded import recorded
from trainway.spec import strict_yaml
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff, TeamData

OWN = ("corpus/research", "checkpoints/research", "runs/research", "checkpoints/llama", "runs/llama-1101-101500")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture
def walled(hand_off: HandOff) -> HandOff:
    data = TeamData(own=OWN, shared=("corpus/web",))
    return hand_off.model_copy(update={"team_data": {"research": data}})


def test_runs_of_a_team_are_below_its_prefix(walled: HandOff, hand_off: HandOff) -> None:
    assert run_path(walled, "research", "llama-1124-101500") == "runs/research/llama-1124-101500"
    assert code_prefix(walled, "research") == "runs/research/code"
    # A run from before that the file gives to the team, and runs where all teams share all prefixes.
    assert run_path(walled, "research", "llama-1101-101500") == "runs/llama-1101-101500"
    assert run_path(hand_off, "research", "a") == "runs/a"
    assert code_prefix(hand_off, "research") == "runs/code"


@pytest.mark.parametrize(
    "location",
    ["s3:/checkpoints/research/a", "s3:/checkpoints/llama", "s3://{bucket}/checkpoints/llama/step-1", "s3://other/a"],
)
def test_a_job_writes_to_the_prefixes_of_its_team_and_to_other_buckets(location: str, walled: HandOff) -> None:
    check_team_data("job", "research", [], [location.format(bucket=walled.bucket)], walled)


@pytest.mark.parametrize(
    ("reads", "writes", "refused"),
    [
        ((), ("s3:/checkpoints/small",), "write to s3:/checkpoints/small"),
        ((), ("s3:/checkpoints/llama-2",), "write to s3:/checkpoints/llama-2"),
        ((), ("s3:/corpus/web/a",), "write to s3:/corpus/web/a"),
        ((), ("fsx:/checkpoints/product/a",), "write to fsx:/checkpoints/product/a"),
        ((), ("s3://{bucket}/checkpoints/product/a",), "write to s3://{bucket}/checkpoints/product/a"),
        (("s3:/corpus/product",), (), "read s3:/corpus/product"),
    ],
)
def test_a_location_of_no_team_or_of_another_is_refused_before_the_launch(
    reads: tuple[str, ...], writes: tuple[str, ...], refused: str, walled: HandOff, hand_off: HandOff
) -> None:
    reads, writes = (tuple(each.format(bucket=walled.bucket) for each in some) for some in (reads, writes))
    with pytest.raises(UsageError) as raised:
        check_team_data("job", "research", reads, writes, walled)
    assert refused.format(bucket=walled.bucket) in str(raised.value)
    assert "/research" in str(raised.value) and "`data` of the team" in str(raised.value)
    check_team_data("job", "research", reads, writes, hand_off)
    check_team_data("job", None, reads, writes, walled.model_copy(update={"teams": ("research", "product")}))


def test_a_job_without_a_team_is_of_the_only_team(walled: HandOff) -> None:
    assert run_path(walled, None, "a") == "runs/research/a"
    two = walled.model_copy(update={"teams": ("research", "product")})
    assert run_path(two, None, "a") == "runs/a"
    with pytest.raises(UsageError):
        check_team_data("job", None, [], ["s3:/checkpoints/a"], walled)


@pytest.mark.parametrize(("teams", "of_the_team"), [(("research",), True), (("research", "product"), False)])
def test_a_training_job_has_the_role_and_the_directory_of_its_team(
    teams: tuple[str, ...], of_the_team: bool, walled: HandOff, tmp_path: Path
) -> None:
    on = on_sagemaker(walled.model_copy(update={"teams": teams}))
    assert on.training_jobs
    roles = on.training_jobs.model_copy(update={"team_role_arns": {"research": "arn:aws:iam::123456789012:role/R"}})
    asked = request(tmp_path, on.model_copy(update={"training_jobs": roles}))
    rendered = render_request(asked, CATALOGUE)
    assert rendered["RoleArn"].endswith("role/R") == of_the_team
    assert ("/runs/research/small-1" in str(rendered)) == of_the_team


def test_what_all_share_and_directories_outside_of_the_bucket_can_be_read(walled: HandOff) -> None:
    check_team_data(
        "job", "research", ["s3:/corpus/web/train", "fsx:/scratch/a", "/data/a"], ["fsx:/scratch/a"], walled
    )


def training_job(directory: Path, **changes: Any) -> Program:
    data = {"train": "s3:/corpus/web", "sequence_length": 64}
    return load_program(write_job(directory, **{"team": "research", "data": data, **changes}))


def test_checkpoints_are_below_the_prefix_of_the_team_by_default(walled: HandOff, tmp_path: Path) -> None:
    plain = training_job(tmp_path, on_checkpoint={"job": {"name": "e", "run": {"script": "true"}}})
    program = with_checkpoints_of_team(plain, walled)
    where = "s3:/checkpoints/research/small"
    check_team_data(program.name, program.team, program.locations, program.written, walled)
    assert program.written == (where,) and program.locations == ("s3:/corpus/web", where)
    assert program.on_checkpoint and program.on_checkpoint.marker == f"{where}/step-{STEP}/.metadata"
    # The nodes, and a later resume, read the job file.
    again = program_of(strict_yaml.read(program.text).data, program.text)
    assert again.written == (where,)
    assert again.command == plain.command
    with pytest.raises(UsageError, match=r"cannot write to s3:/checkpoints/small[\s\S]*s3:/checkpoints/research"):
        check_team_data(plain.name, plain.team, plain.locations, plain.written, walled)


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": {"location": "s3:/checkpoints/research/a", "every": 4}},
        # From before teams had prefixes, and the platform file gives the prefix to the team.
        {"name": "llama"},
        {"name": "small", "team": "product"},
    ],
    ids=["with a location", "in a prefix of the team", "of a team without prefixes"],
)
def test_checkpoints_stay_elsewhere(changes: dict[str, Any], walled: HandOff, tmp_path: Path) -> None:
    program = training_job(tmp_path, **changes)
    assert with_checkpoints_of_team(program, walled) is program


def test_a_program_of_yours_is_launched_as_its_file_says(walled: HandOff, tmp_path: Path) -> None:
    text = "name: a\nteam: research\nrun: {command: [python, -V]}\n"
    program = program_of(strict_yaml.read(text).data, text, directory=tmp_path)
    assert with_checkpoints_of_team(program, walled) is program


def test_code_of_a_team_is_uploaded_below_its_prefix(
    walled: HandOff, tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3", region_name=walled.region)
    s3.create_bucket(Bucket=walled.bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    (tmp_path / "train.py").write_text("")
    location = sync(tmp_path, walled, team="research")
    assert location.startswith(f"s3://{walled.bucket}/runs/research/code/")
    (stored,) = s3.list_objects_v2(Bucket=walled.bucket)["Contents"]
    assert location.endswith(f"/{stored['Key']}")


def test_the_record_of_a_run_without_a_team_is_the_only_teams(
    walled: HandOff, tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    own = walled.model_copy(update={"bucket": "records-of-teams"})
    s3 = boto3.client("s3", region_name=own.region)
    s3.create_bucket(Bucket=own.bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    with recorded([request(tmp_path, on_sagemaker(own))], named=False, resumed=False):
        (stored,) = s3.list_objects_v2(Bucket=own.bucket)["Contents"]
    assert stored["Key"].startswith("runs/research/")
