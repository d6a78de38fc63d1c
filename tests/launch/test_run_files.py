"""The files of a run reach S3, where no file system mirrors them, and a node without a file system gets them there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.moto_server import moto_server
from trainway.launch.program.program import RUN_FILES

BUCKET, RUN = "run-files", "runs/research/small"
KEYS = {"AWS_ACCESS_KEY_ID": "emulator", "AWS_SECRET_ACCESS_KEY": "emulator", "AWS_REGION": "us-east-1"}


class S3:
    """The tests' S3 with the bucket of a platform."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        made: Any = boto3.client
        names = {"aws_access_key_id": "emulator", "aws_secret_access_key": "emulator"}
        self.client = made("s3", region_name="us-east-1", endpoint_url=self.endpoint, **names)

    def files(self) -> dict[str, str]:
        """Return the files of the run in the bucket."""
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{RUN}/").get("Contents", ())
        return {
            each["Key"].removeprefix(f"{RUN}/"): self.client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"]
            .read()
            .decode()
            for each in found
        }

    def put(self, name: str, text: str) -> None:
        """Write a file of the run to the bucket."""
        self.client.put_object(Bucket=BUCKET, Key=f"{RUN}/{name}", Body=text.encode())


@pytest.fixture
def s3() -> Iterator[S3]:
    with moto_server() as endpoint:
        made = S3(endpoint)
        made.client.create_bucket(Bucket=BUCKET)
        yield made


Node = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def node(s3: S3, tmp_path: Path) -> Node:
    """Start a script on a node with a disk of its own, where it begins in the directory of the run."""

    def start(disk: str, script: str, *options: str, **environment: str) -> subprocess.Popen[str]:
        run = tmp_path / disk / RUN
        where = (*options, f"--directory={run}", f"--location=s3://{BUCKET}/{RUN}")
        command = [sys.executable, str(RUN_FILES), *where, "--", "bash", "-c", f"mkdir -p {run}; cd {run} && {script}"]
        told = {"PATH": os.environ["PATH"], "AWS_ENDPOINT_URL": s3.endpoint, **KEYS, "HOME": str(tmp_path)}
        return subprocess.Popen(command, env=told | environment, stderr=subprocess.PIPE, text=True)

    return start


@pytest.fixture
def sharing(node: Node, tmp_path: Path) -> Node:
    """Start a script on a node, by its number, of a run whose nodes share one directory."""

    def start(rank: int, script: str, **environment: str) -> subprocess.Popen[str]:
        logs = tmp_path / "lustre" / RUN / "logs" / f"small-{rank}"
        told = {"PET_LOG_DIR": str(logs), "JOB_COMPLETION_INDEX": str(rank)}
        return node("lustre", f"mkdir -p {logs} && {script}", "--shared", **told | environment)

    return start


def until(true: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("status", (0, 3))
def test_files_are_in_s3_at_the_end_however_it_ended(status: int, s3: S3, node: Node) -> None:
    ended = node("first", f"mkdir -p logs/a && echo hello >logs/a/stderr.log && echo 1 >metrics.jsonl; exit {status}")
    assert ended.wait(300) == status
    assert s3.files() == {"logs/a/stderr.log": "hello\n", "metrics.jsonl": "1\n"}


def test_files_are_in_s3_while_the_command_runs_and_only_what_changed_is_sent_again(
    s3: S3, node: Node, tmp_path: Path
) -> None:
    script = "echo 1 >metrics.jsonl; echo kept >checkpoint; until [ -e go ]; do sleep 0.1; done; echo 2 >>metrics.jsonl"
    running = node("first", script, TRAINWAY_RUN_FILES_SECONDS="0.2")
    until(lambda: set(s3.files()) == {"metrics.jsonl", "checkpoint"})
    s3.put("checkpoint", "of another node")
    (tmp_path / "first" / RUN / "go").touch()
    assert running.wait(300) == 0
    assert s3.files()["metrics.jsonl"] == "1\n2\n"
    assert s3.files()["checkpoint"] == "of another node", "the unchanged file was not sent again"


def test_another_node_continues_with_the_files_and_without_the_logs(s3: S3, node: Node, tmp_path: Path) -> None:
    assert node("first", "mkdir logs attempts; echo log >logs/x; echo 1 >attempts/of-node-0; echo a >m").wait(300) == 0
    assert node("second", "echo b >>m; [ ! -e logs ] && [ $(cat attempts/of-node-0) = 1 ]").wait(300) == 0
    assert s3.files()["m"] == "a\nb\n"
    assert s3.files()["logs/x"] == "log\n", "nothing is deleted in S3"
    assert (tmp_path / "first" / RUN / "m").read_text() == "a\n", "each node has a disk of its own"


def test_no_object_of_the_bucket_becomes_a_file_outside_of_the_run(s3: S3, node: Node, tmp_path: Path) -> None:
    # The first two stand for folders, as the console of S3 and FSx leave them. Then, a path after `//`, and `..`.
    for name in ("", "folder/", f"/{tmp_path}/absolute", f"{tmp_path}/absolute", "../above", "a/../../above", "kept"):
        s3.put(name, "planted")
    ended = node("first", "ls -A >names")
    assert (ended.communicate(timeout=300)[1], ended.returncode) == ("", 0)
    assert s3.files()["names"] == "kept\nnames\n"
    assert not (tmp_path / "absolute").exists() and not (tmp_path / "first" / RUN).with_name("above").exists()


def test_the_first_node_says_why_an_attempt_failed(s3: S3, node: Node, tmp_path: Path) -> None:
    running = node("second", "mkdir -p attempts/1; until [ -e go ]; do sleep 0.1; done; echo late >attempts/1/failure")
    # It has restored the files, so that it does not find the word of the first node there.
    until(lambda: (tmp_path / "second" / RUN / "attempts/1").exists())
    assert node("first", "mkdir -p attempts/1; echo memory >attempts/1/failure; exit 1").wait(300) == 1
    (tmp_path / "second" / RUN / "go").touch()
    assert running.wait(300) == 0
    assert s3.files()["attempts/1/failure"] == "memory\n"


def test_a_marker_is_in_s3_after_the_files_that_it_marks(node: Node, tmp_path: Path) -> None:
    """A node that is killed between the two leaves a checkpoint without a marker, and never the reverse."""
    taken = tmp_path / "taken"
    (tmp_path / "bin").mkdir()
    aws = tmp_path / "bin" / "aws"
    aws.write_text(f'#!/bin/sh\n[ "$2" = cp ] && echo "$4" >>{taken}\nexit 0\n')
    aws.chmod(0o755)
    # Without boto3, the AWS CLI sends the files.
    (tmp_path / "none" / "boto3").mkdir(parents=True)
    (tmp_path / "none" / "boto3" / "__init__.py").write_text("raise ImportError")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    script = "echo z >z-part; sleep 0.05; echo m >a-marker"
    assert node("first", script, PATH=path, PYTHONPATH=str(tmp_path / "none")).wait(300) == 0
    assert [line.rpartition("/")[2] for line in taken.read_text().splitlines()] == ["z-part", "a-marker"]


def test_an_image_with_neither_boto3_nor_the_cli_says_so_for_good(node: Node, tmp_path: Path) -> None:
    (tmp_path / "none" / "boto3").mkdir(parents=True)
    (tmp_path / "none" / "boto3" / "__init__.py").write_text("raise ImportError")
    ended = node("first", "true", PATH="/usr/bin:/bin", PYTHONPATH=str(tmp_path / "none"))
    said = ended.communicate(timeout=300)[1]
    assert ended.returncode == 127
    assert "neither boto3 nor the AWS CLI" in said and "add one to the image" in said


def test_the_command_alone_is_told_to_stop_and_what_it_saves_is_kept(s3: S3, node: Node) -> None:
    script = "trap 'echo saved >checkpoint; exit 99' TERM; echo up >up; while :; do sleep 0.1; done"
    running = node("first", script, TRAINWAY_RUN_FILES_SECONDS="0.2")
    until(lambda: "up" in s3.files())
    running.send_signal(signal.SIGTERM)
    assert running.wait(300) == 99
    assert s3.files()["checkpoint"] == "saved\n"


def test_a_bucket_that_is_gone_ends_the_node_before_its_command(s3: S3, node: Node) -> None:
    s3.client.delete_bucket(Bucket=BUCKET)
    ended = node("first", "echo began >&2")
    said = ended.communicate(timeout=300)[1]
    s3.client.create_bucket(Bucket=BUCKET)
    assert ended.returncode == 127
    assert "NoSuchBucket" in said and "began" not in said


def test_nodes_that_share_a_directory_upload_their_own_files_and_the_first_all_others(s3: S3, sharing: Node) -> None:
    record = "mkdir -p attempts/1; echo {rank} >attempts/1/node-{rank}.json; echo {rank} >logs/small-{rank}/stderr.log"
    second = f"{record.format(rank=1)}; echo z >outputs; echo memory >attempts/1/failure; exit 3"
    assert sharing(1, second).wait(300) == 3
    own = {"logs/small-1/stderr.log": "1\n", "attempts/1/node-1.json": "1\n", "attempts/1/failure": "memory\n"}
    assert s3.files() == own
    assert sharing(0, record.format(rank=0)).wait(300) == 0
    assert s3.files() == own | {"outputs": "z\n", "attempts/1/node-0.json": "0\n", "logs/small-0/stderr.log": "0\n"}


@pytest.mark.parametrize("clock", ["-1 day", "+1 day"])
def test_the_first_node_of_the_next_attempt_uploads_what_a_lost_node_could_not(
    clock: str, s3: S3, sharing: Node, tmp_path: Path
) -> None:
    run = tmp_path / "lustre" / RUN
    logs = f"echo before >logs/small-1/stderr.log; touch -d '{clock}' logs/small-1/stderr.log"
    written = f"echo sent >kept; touch -d @1 kept; {logs}; touch up"
    lost = sharing(1, f"{written}; until [ -e go ]; do sleep 0.1; done")
    until(lambda: (run / "up").exists())
    lost.kill()
    # The script is left without its parent.
    (run / "go").touch()
    assert "logs/small-1/stderr.log" not in s3.files()
    s3.put("kept", "SENT\n")
    assert sharing(0, "true").wait(300) == 0
    assert s3.files()["logs/small-1/stderr.log"] == "before\n"
    assert s3.files()["kept"] == "SENT\n", "what S3 has is not sent again"


def test_nodes_that_share_a_directory_train_without_s3(s3: S3, sharing: Node, tmp_path: Path) -> None:
    (tmp_path / "none" / "boto3").mkdir(parents=True)
    (tmp_path / "none" / "boto3" / "__init__.py").write_text("raise ImportError")
    ended = sharing(0, "exit 7", PYTHONPATH=str(tmp_path / "none"), PATH="/usr/bin:/bin")
    assert "add one to the image" in ended.communicate(timeout=300)[1] and ended.returncode == 7
    s3.client.delete_bucket(Bucket=BUCKET)
    ended = sharing(0, "echo 1 >metrics.jsonl; exit 7")
    said = ended.communicate(timeout=300)[1]
    s3.client.create_bucket(Bucket=BUCKET)
    assert "NoSuchBucket" in said and ended.returncode == 7


@pytest.mark.parametrize("moment", ("2100-01-02T03:04:05.000Z", "2100-01-02T03:04:05+00:00"))
def test_the_aws_cli_of_either_version_says_what_s3_has(moment: str, sharing: Node, tmp_path: Path) -> None:
    taken, aws = tmp_path / "taken", tmp_path / "bin" / "aws"
    aws.parent.mkdir()
    listed = f"2\\t{moment}\\t{RUN}/kept\\n9\\t{moment}\\t{RUN}/grown\\n"
    aws.write_text(f'#!/bin/sh\n[ "$2" = cp ] && echo "$4" >>{taken} || printf "{listed}"\n')
    aws.chmod(0o755)
    (tmp_path / "none" / "boto3").mkdir(parents=True)
    (tmp_path / "none" / "boto3" / "__init__.py").write_text("raise ImportError")
    run = tmp_path / "lustre" / RUN
    run.mkdir(parents=True)
    for name in ("kept", "grown"):
        (run / name).write_text("1\n")
    path = f"{aws.parent}:{os.environ['PATH']}"
    assert sharing(0, "true", PATH=path, PYTHONPATH=str(tmp_path / "none")).wait(300) == 0
    assert taken.read_text().split() == [f"s3://{BUCKET}/{RUN}/grown"]
