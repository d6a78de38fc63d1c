"""Find complete checkpoints in S3, on a mounted file system, and in the bucket that mirrors a file system."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from emulator import running
from tests.launch.conftest import BUCKET, make_hand_off, write_job
from tests.launch.foreign import write_foreign_job
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.on_checkpoint import OnCheckpoint
from trainway.launch.program.program import Program
from trainway.launch.starting.checkpoints import find_checkpoints, marker_location
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

METADATA = "step-{step}/.metadata"


@pytest.fixture(scope="module")
def bucket() -> Iterator[None]:
    """The data bucket, with two complete checkpoints, an incomplete one, and something else."""
    with running(region="us-west-2") as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        s3 = boto3.client("s3", region_name="us-west-2")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        names = ("00000004/.metadata", "00000008/.metadata", "00000012/__0_0.distcp", "x/.metadata")
        for name in (*(f"step-{name}" for name in names), "step-00000016/kept/.metadata"):
            s3.put_object(Bucket=BUCKET, Key=f"corpus/llama/{name}", Body=b"")
        yield


def program(directory: Path) -> Program:
    return load_program(write_job(directory, on_checkpoint={"job": {"name": "e", "run": {"script": "true"}}}))


def mounted_at(hand_off: HandOff, mount: str) -> HandOff:
    file_system = hand_off.mounted.model_copy(update={"mount_path": mount})
    return hand_off.model_copy(update={"file_system": file_system})


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("root", ["s3:", f"s3://{BUCKET}", "fsx:", "/absent/fsx"])
def test_every_form_of_a_location_is_seen_in_the_bucket(root: str, tmp_path: Path, hand_off: HandOff) -> None:
    marker = f"{root}/corpus/llama/{METADATA}"
    found = find_checkpoints(marker, mounted_at(hand_off, "/absent/fsx"), program(tmp_path), is_here=False)
    assert [(each.step, each.location) for each in found] == [
        (4, f"{root}/corpus/llama/step-00000004"),
        (8, f"{root}/corpus/llama/step-00000008"),
    ]
    assert all(each.completed > 1.7e9 for each in found)


@pytest.mark.parametrize("root", ["fsx:", "{mount}"])
def test_a_mounted_file_system_is_read_itself(root: str, tmp_path: Path, hand_off: HandOff) -> None:
    mounted = mounted_at(hand_off, str(tmp_path))
    for name in ("step-00000004/.metadata", "step-00000012/__0_0.distcp"):
        file = tmp_path / "elsewhere" / name
        file.parent.mkdir(parents=True)
        file.touch()
    location = f"{root.format(mount=tmp_path)}/elsewhere"
    (found,) = find_checkpoints(f"{location}/{METADATA}", mounted, program(tmp_path), is_here=False)
    assert (found.step, found.location) == (4, f"{location}/step-00000004")


@pytest.mark.parametrize("root", ["fsx:", "/absent/fsx", "/home"])
def test_a_directory_that_is_nowhere_to_be_seen_is_refused(root: str, tmp_path: Path, hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match="cannot be seen from this machine"):
        find_checkpoints(
            f"{root}/scratch/{METADATA}", mounted_at(hand_off, "/absent/fsx"), program(tmp_path), is_here=False
        )


def test_a_marker_below_the_outputs_is_where_the_run_writes_them(tmp_path: Path) -> None:
    hand_off = make_hand_off()
    section = OnCheckpoint("", tmp_path, "checkpoint-{step}/done")
    mine = replace(load_program(write_foreign_job(tmp_path)), on_checkpoint=section)
    run = Path("runs/first")

    def located(program: Program, *, is_here: bool = False, has_nodes: bool = True) -> str:
        return marker_location(program, run, None if is_here else hand_off, is_here=is_here, has_nodes=has_nodes)

    assert located(mine) == "fsx:/runs/first/outputs/checkpoint-{step}/done"
    assert located(mine, has_nodes=False) == "s3:/runs/first/outputs/checkpoint-{step}/done"
    assert located(replace(mine, outputs="fsx:/sft/")) == "fsx:/sft/first/checkpoint-{step}/done"
    assert located(mine, is_here=True) == str(run.absolute() / "outputs/checkpoint-{step}/done")
    fixed = replace(mine, on_checkpoint=replace(section, marker="fsx:/c/{step}/done"))
    assert located(fixed) == "fsx:/c/{step}/done"
