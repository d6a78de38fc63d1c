"""What a run wrote is copied from the platform's bucket, once, and only into the directory that was named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from emulator import Emulator, running
from tests.launch.conftest import make_hand_off
from trainway.launch.runs.outputs import Copied, copy_local, copy_outputs
from trainway.spec.errors import UsageError
from trainway.spec.handoff import Association, HandOff

FILES = {"logs/node-0/rank-0.log": b"step 1", "metrics.jsonl": b"{}\n", "out/model.bin": bytes(1000)}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture
def bucket(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> HandOff:
    """A platform whose bucket has a run, another run of a longer name, and an object for a directory."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    hand_off = make_hand_off()
    name = f"data-{abs(hash(request.node.name))}"
    associations = (Association(path="/runs", s3=f"s3://{name}/runs"),)
    s3 = boto3.client("s3", region_name=hand_off.region)
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    for file, content in FILES.items():
        s3.put_object(Bucket=name, Key=f"runs/mine/{file}", Body=content)
    s3.put_object(Bucket=name, Key="runs/mine/logs/", Body=b"")
    s3.put_object(Bucket=name, Key="runs/mine-2/metrics.jsonl", Body=b"{}")
    file_system = hand_off.mounted.model_copy(update={"associations": associations})
    return hand_off.model_copy(update={"bucket": name, "file_system": file_system})


def files_below(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_all_files_of_the_run_are_copied_and_the_second_time_none(bucket: HandOff, tmp_path: Path) -> None:
    assert copy_outputs(bucket, "mine", tmp_path) == Copied(3, 0, sum(map(len, FILES.values())))
    assert files_below(tmp_path) == FILES
    (tmp_path / "metrics.jsonl").write_bytes(b"cut off")
    assert copy_outputs(bucket, "mine", tmp_path) == Copied(1, 2, 3)
    assert files_below(tmp_path) == FILES


def test_a_file_that_was_written_again_is_copied_again(bucket: HandOff, tmp_path: Path) -> None:
    copy_outputs(bucket, "mine", tmp_path)
    os.utime(tmp_path / "metrics.jsonl", (0, 0))
    assert copy_outputs(bucket, "mine", tmp_path).copied == 1


def test_patterns_choose_files(bucket: HandOff, tmp_path: Path) -> None:
    copy_outputs(bucket, "mine", tmp_path, ["logs/*", "*.jsonl"])
    assert set(files_below(tmp_path)) == {"logs/node-0/rank-0.log", "metrics.jsonl"}


@pytest.mark.parametrize(
    ("outputs", "where"),
    [("fsx:/runs/out", "runs/out"), ("s3:/models", "models"), ("s3://{bucket}/own/", "own")],
)
def test_outputs_that_the_job_file_puts_elsewhere_are_copied_too(
    outputs: str, where: str, bucket: HandOff, tmp_path: Path
) -> None:
    boto3.client("s3").put_object(Bucket=bucket.bucket, Key=f"{where}/mine/model.bin", Body=b"weights")
    boto3.client("s3").put_object(Bucket=bucket.bucket, Key=f"{where}/other/model.bin", Body=b"")
    copied = copy_outputs(bucket, "mine", tmp_path, outputs=outputs.format(bucket=bucket.bucket))
    assert copied.copied == len(FILES) + 1
    assert (tmp_path / "outputs/model.bin").read_bytes() == b"weights"
    copy_outputs(bucket, "mine", tmp_path / "chosen", ["outputs/*"], outputs=outputs.format(bucket=bucket.bucket))
    assert set(files_below(tmp_path / "chosen")) == {"outputs/model.bin"}


def test_outputs_that_no_bucket_mirrors_are_named(bucket: HandOff, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"`run.outputs` is fsx:/scratch, which no bucket mirrors"):
        copy_outputs(bucket, "mine", tmp_path, outputs="fsx:/scratch")


def test_a_run_on_this_machine_is_copied_to_another_directory(tmp_path: Path) -> None:
    run, there = tmp_path / "run", tmp_path / "there"
    for name, content in FILES.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(content)
    assert copy_local(run, there, ["logs/*", "out/*"]).copied == 2
    assert copy_local(run, there) == Copied(1, 2, 3) and files_below(there) == FILES


def test_no_name_leads_out_of_the_directory(bucket: HandOff, tmp_path: Path) -> None:
    boto3.client("s3").put_object(Bucket=bucket.bucket, Key="runs/mine/../../.bashrc", Body=b"")
    with pytest.raises(UsageError, match="would be outside of"):
        copy_outputs(bucket, "mine", tmp_path / "here")
    assert not (tmp_path / ".bashrc").exists()


def test_what_cannot_be_copied_is_explained(bucket: HandOff, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing below s3://.*/runs/absent/"):
        copy_outputs(bucket, "absent", tmp_path)
    not_mirrored = bucket.model_copy(update={"file_system": bucket.mounted.model_copy(update={"associations": ()})})
    with pytest.raises(UsageError, match=r"(?s)under Slurm.* in /fsx/runs/absent, .*`trainway shell`"):
        copy_outputs(not_mirrored, "absent", tmp_path)
    gone = bucket.model_copy(update={"bucket": f"{bucket.bucket}-gone"})
    associations = (Association(path="/runs", s3=f"s3://{gone.bucket}/runs"),)
    gone = gone.model_copy(update={"file_system": gone.mounted.model_copy(update={"associations": associations})})
    with pytest.raises(UsageError, match=r"(?s)NoSuchBucket.*s3:GetObject"):
        copy_outputs(gone, "mine", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="name another directory with --to"):
        copy_outputs(bucket, "mine", tmp_path / "file")
