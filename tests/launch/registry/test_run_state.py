"""A run writes its state where its platform is: the starter on a node, into the bucket of the emulated AWS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.node import aws_on_node
from trainway.launch.node.exit_statuses import NOT_FOUND, STOPPED
from trainway.launch.program.program import RUN_FILES, STARTER
from trainway.launch.registry.state import RunState, parse_state, state_key_of
from trainway.launch.registry.store import Registry

REGISTRY = Registry("atlas", "us-east-1", "atlas-data", ("research",))
RUN, TEAM = "llama-1", "research"
LOCATION = f"s3://{REGISTRY.bucket}/{state_key_of(TEAM, RUN)}"
RUNNING = '{"schema_version": 1, "state": "running", "attempt": 2, "started": 1.0, "written": 2.0'
STEPS = """
import sys, time
for step in range(1, 1000):
    print(f"step={step}/1000 loss={10 / step}", flush=True)
    time.sleep(0.05)
"""
WAITS = """
import os
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""
STATE: dict[str, Any] = {"schema_version": 1, "state": "running", "attempt": 1, "started": 1.0, "written": 2.0}
METRICS = (r"--metric=step=step=(\d+)", r"--metric=steps=step=\d+/(\d+)", r"--metric=loss=loss=(\S+)")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running(region=REGISTRY.region) as started:
        yield started


@pytest.fixture(autouse=True)
def bucket(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    made = boto3.resource("s3", region_name=REGISTRY.region).create_bucket(Bucket=REGISTRY.bucket)
    yield
    made.objects.delete()
    made.delete()


def start(directory: Path, *arguments: str, wrapper: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    """Start the starter of a program on a node, under a wrapper, with what the launcher tells it."""
    told = {
        "TRAINWAY_RUN": str(directory),
        "TRAINWAY_OUTPUT": str(directory / "outputs"),
        "TRAINWAY_STATE": LOCATION,
        "TRAINWAY_STATE_SECONDS": "0.2",
        "TRAINWAY_STOPPED_STATUS": str(STOPPED),
        "AWS_REGION": REGISTRY.region,
        **environment,
    }
    command = [*wrapper, sys.executable, str(STARTER), *arguments]
    return subprocess.Popen(command, env={**os.environ, **told}, stdout=-1, stderr=-1, text=True)


def state() -> RunState | None:
    return REGISTRY.state(TEAM, RUN)


def test_a_program_that_runs_has_its_step_its_pace_and_its_end(tmp_path: Path) -> None:
    # The program waits after its last step, so that the test can read the state of a running program.
    was_read = tmp_path / "was-read"
    steps = STEPS.replace("1000)", "60)") + WAITS
    program = start(tmp_path, *METRICS, "--", sys.executable, "-c", steps, str(was_read))
    wait_for("it has written a step", lambda: bool((now := state()) and now.step and now.step_seconds))
    running_now = state()
    assert running_now is not None and (running_now.state, running_now.steps) == ("running", 1000)
    assert running_now.seconds_left is not None and running_now.seconds_left > 0
    was_read.touch()
    assert program.wait(300) == 0, program.communicate()
    ended = state()
    assert ended is not None and (ended.state, ended.step, ended.loss, ended.attempt) == ("succeeded", 59, 10 / 59, 1)
    assert ended.seconds_left is None and ended.exit_status == 0
    assert ended.first_step is not None and ended.first_step < 59
    # The program sleeps before each step but the first, and its clock is that of this machine.
    assert ended.stepping is not None
    assert 0.05 * (59 - ended.first_step) < ended.stepping < ended.written - ended.started


def test_a_program_that_reports_no_steps_still_writes_that_it_runs(tmp_path: Path) -> None:
    end = tmp_path / "end"
    program = start(tmp_path, "--", sys.executable, "-c", f"import sys, time{WAITS}", str(end))
    wait_for("it runs", lambda: state() is not None)
    first = state()
    assert first is not None
    wait_for("it has written again", lambda: bool((now := state()) and now.written > first.written))
    end.touch()
    assert program.wait(300) == 0, program.communicate()


def test_the_state_keeps_the_newest_earlier_attempts() -> None:
    for attempt in range(1, 104):
        told = {"schema_version": 1, "attempt": attempt, "started": 10.0 * attempt, "written": 10.0 * attempt + 5}
        aws_on_node.write_state(LOCATION, json.dumps(told | {"state": "failed", "reason": "x" * 400, "nodes": ["a"]}))
    last = state()
    assert last is not None and last.attempt == 103
    assert [each.attempt for each in last.earlier] == list(range(3, 103))
    assert {len(each.reason or "") for each in last.earlier} == {300}


def test_a_program_that_is_stopped_and_one_that_fails_say_so_and_attempts_count(tmp_path: Path) -> None:
    program = start(tmp_path, *METRICS, "--", sys.executable, "-c", STEPS)
    wait_for("it runs", lambda: state() is not None)
    program.send_signal(signal.SIGTERM)
    assert program.wait(300) == STOPPED
    stopped = state()
    assert stopped is not None and (stopped.state, stopped.exit_status, stopped.attempt) == ("stopped", STOPPED, 1)
    assert start(tmp_path, "--", "./absent").wait(300) == NOT_FOUND
    failed = state()
    assert failed is not None and (failed.state, failed.attempt, failed.step) == ("failed", 2, None)
    assert failed.reason is not None and "./absent: there is no such file" in failed.reason
    (before,) = failed.earlier
    assert (before.attempt, before.state, before.exit_status) == (1, "stopped", STOPPED)
    assert before.started < before.written <= failed.started


def test_the_failure_of_any_node_is_that_of_the_run(tmp_path: Path) -> None:
    first = start(tmp_path, *METRICS, "--", sys.executable, "-c", STEPS)
    wait_for("the first node runs", lambda: bool((now := state()) and now.step))
    second = start(tmp_path, "--", "sh", "-c", "exit 3", TRAINWAY_NODE_RANK="1")
    assert second.wait(300) == 3
    # The orchestrator stops the other nodes.
    first.send_signal(signal.SIGTERM)
    assert first.wait(300) == STOPPED
    ended = state()
    assert ended is not None and (ended.state, ended.exit_status) == ("failed", 3)
    assert ended.reason is not None and "sh ended with exit status 3" in ended.reason
    assert ended.step, "the numbers are those of the first node"


def test_a_node_that_is_not_the_first_writes_nothing_unless_it_fails(tmp_path: Path) -> None:
    assert start(tmp_path, *METRICS, "--", "echo", "step=5/9", TRAINWAY_NODE_RANK="1").wait(300) == 0
    assert state() is None


def ends_after(programs: list[subprocess.Popen[str]], file: Path, nodes: tuple[str, ...]) -> None:
    """Wait until the state has the nodes, and let the programs end, which wait for the file.

    A test on EC2 knows the ID of its instance.
    """

    def known() -> tuple[str, ...]:
        return tuple(each.partition(" ")[0] for each in now.nodes) if (now := state()) else ()

    wait_for("the state has the nodes", lambda: known() == nodes)
    file.touch()
    assert [each.wait(300) for each in programs] == [0] * len(programs), [each.communicate() for each in programs]


def test_a_program_that_prints_no_step_has_its_nodes_in_the_state(tmp_path: Path) -> None:
    run, ends = tmp_path / "run", tmp_path / "ends"
    (run / "nodes").mkdir(parents=True)
    # What an earlier attempt with more nodes left, and what a program can write there.
    stale = {"start": "attempt 1", "node": "ip-10-0-0-9"}
    for name, text in {
        "2.json": json.dumps(stale),
        "3.json": json.dumps(stale | {"start": "attempt 2", "node": "x\n$(reboot)"}),
        "4.json": json.dumps({"start": "attempt 2", "node": ["a"]}),
        "5.json": "[" * 100_000,
        "x.json": json.dumps(stale | {"start": "attempt 2"}),
    }.items():
        (run / "nodes" / name).write_text(text)
    (run / "nodes/6.json").mkdir()
    programs = [
        start(
            run,
            *("--", "sh", "-c", f"while [ ! -e {ends} ]; do sleep 0.1; done"),
            TRAINWAY_ATTEMPT="2",
            TRAINWAY_NODE_RANK=str(rank),
            SLURMD_NODENAME=f"ip-10-0-0-{rank}",
        )
        for rank in range(2)
    ]
    ends_after(programs, ends, ("ip-10-0-0-0", "ip-10-0-0-1"))


def test_nodes_without_a_common_directory_know_each_other_by_the_bucket(tmp_path: Path) -> None:
    ends, programs = tmp_path / "ends", []
    for rank in range(2):
        run = tmp_path / f"disk-{rank}"
        where = (f"--directory={run}", f"--location=s3://{REGISTRY.bucket}/runs/{TEAM}/{RUN}")
        programs.append(
            start(
                run,
                *("--", "sh", "-c", f"while [ ! -e {ends} ]; do sleep 0.1; done"),
                wrapper=(sys.executable, str(RUN_FILES), *where, "--"),
                TRAINWAY_RUN_FILES_SECONDS="0.2",
                JOB_COMPLETION_INDEX=str(rank),
                NODE_NAME=f"hyperpod-i-0123456789abcdef{rank}",
            )
        )
    ends_after(programs, ends, ("hyperpod-i-0123456789abcdef0", "hyperpod-i-0123456789abcdef1"))


def test_a_bucket_that_cannot_be_written_is_told_once_and_the_program_succeeds(tmp_path: Path) -> None:
    nowhere = LOCATION.replace(REGISTRY.bucket, "not-there")
    program = start(
        tmp_path, *METRICS, "--", sys.executable, "-c", STEPS.replace("1000)", "40)"), TRAINWAY_STATE=nowhere
    )
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 0
    assert errors.count("the state of the run cannot be written") == 1
    assert "NoSuchBucket" in errors


def test_an_image_with_the_aws_cli_alone_writes_the_state(tmp_path: Path) -> None:
    """The AWS CLI is stood in for: it is in no package here."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "boto3.py").write_text("raise ImportError\n")
    (tmp_path / "aws").write_text(
        f"""#!{sys.executable}
import pathlib, sys
words = sys.argv[1:]
if words[1] == "get-object":
    sys.exit("An error occurred (NoSuchKey) when calling the GetObject operation")
assert words[:2] == ["s3api", "put-object"] and words[words.index("--key") + 1].endswith("/{RUN}.state"), words
content = pathlib.Path(words[words.index("--body") + 1]).read_text()
pathlib.Path({str(tmp_path / "written")!r}).write_text(content)
"""
    )
    (tmp_path / "aws").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert start(tmp_path, "--", "true", PATH=path, PYTHONPATH=str(tmp_path / "site")).wait(300) == 0
    assert parse_state((tmp_path / "written").read_text()).state == "succeeded"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 2}',
        '{"schema_version": 1, "state": "running"}',
        "not json",
        # An earlier attempt without its times, and one that has taken infinitely long.
        f'{RUNNING}, "earlier": [{{"attempt": 1, "state": "failed"}}]}}',
        f'{RUNNING}, "earlier": [{RUNNING}, "stepping": Infinity}}]}}',
        json.dumps(STATE | {"nodes": ["x\n"]}),
        json.dumps(STATE | {"nodes": ["--node=x"]}),
        json.dumps(STATE | {"nodes": ["x i-0123456789abcdef0 y"]}),
        json.dumps(STATE | {"nodes": ["x"] * 10_001}),
    ],
)
def test_what_is_no_state_is_no_state(text: str) -> None:
    with pytest.raises(ValueError):
        parse_state(text)
    boto3.client("s3", region_name=REGISTRY.region).put_object(
        Bucket=REGISTRY.bucket, Key=state_key_of(TEAM, RUN), Body=text.encode()
    )
    assert state() is None


def test_a_state_of_a_later_release_is_read_as_far_as_it_is_known() -> None:
    assert parse_state(json.dumps(STATE | {"goodput": 0.97, "nodes": ["x i-0123456789abcdef0"]})).state == "running"
