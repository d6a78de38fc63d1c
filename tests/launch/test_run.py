"""A job that was stopped half-way ends exactly where the job that nobody touched ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import run_trainway
from tests.launch.conftest import write_job
from training.data.corpus import python_standard_library
from training.prepare import prepare
from trainway.launch.local import watch
from trainway.launch.runs.run_directory import read_launch, record_submission, runs_below
from trainway.launch.target.protocol import Phase, State

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus")
    prepare(python_standard_library(limit_bytes=400_000), str(out), vocabulary=512)
    return out


# tests/training/test_train.py has wrong jobs, and test_any_program.py programs that fail.
@pytest.mark.exhaustive
def test_a_job_that_cannot_run_says_why_without_a_traceback(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    job_file = write_job(tmp_path, data={"train": absent}, checkpoint={"location": str(tmp_path / "ckpt")})
    # One rank prints the same message as two.
    ran = run_trainway("launch", str(job_file), f"--run={tmp_path / 'run'}", "--processes=1", directory=ROOT)
    assert ran.returncode != 0
    assert "Traceback" not in ran.stderr
    assert f"why: {tmp_path}/run/job.yaml: {absent}: there are no token shards here" in ran.stderr
    assert json.loads((tmp_path / "run/launch.json").read_text())["exit_status"] == ran.returncode
    assert "ChildFailedError" in (tmp_path / "run/logs/torchrun.log").read_text()


def launch(job_file: Path, run: Path, *options: str) -> dict[str, Any]:
    """Launches as a user does, and returns the run's last event."""
    ran = run_trainway("launch", str(job_file), "--target=local", f"--run={run}", *options, directory=ROOT)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    lines = (run / "metrics.jsonl").read_text().splitlines()
    last: dict[str, Any] = json.loads(lines[-1])
    return last


# tests/training/test_resume.py proves it of the program that is launched.
@pytest.mark.exhaustive
def test_stopped_and_resumed_ends_with_the_same_loss_bit_for_bit(corpus: Path, tmp_path: Path) -> None:
    for name in ("whole", "halves"):
        (tmp_path / name).mkdir()
    data = {"train": str(corpus), "sequence_length": 64, "cache": str(tmp_path / "cache")}
    whole = write_job(tmp_path / "whole", data=data, checkpoint={"every": 4, "location": str(tmp_path / "whole/ckpt")})
    halves = write_job(
        tmp_path / "halves", data=data, checkpoint={"every": 4, "location": str(tmp_path / "halves/ckpt")}
    )
    untouched = launch(whole, tmp_path / "whole/run")

    run = tmp_path / "halves/run"
    launch(halves, run, "--until-step=6")
    record = json.loads((run / "launch.json").read_text())
    assert record["exit_status"] == 0
    resumed = launch(halves, run)

    assert untouched["event"] == resumed["event"] == "end"
    assert (untouched["step"], untouched["loss_hex"]) == (resumed["step"], resumed["loss_hex"])
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [event["resumed_from"] for event in events if event["event"] == "start"] == [None, 6]


FAILS_ONCE = """
import pathlib, sys
tried = pathlib.Path(sys.argv[1])
first = not tried.exists()
tried.touch()
sys.exit(int(first))
"""


@pytest.mark.parametrize(("life_cycle", "fails"), [({}, True), ({"process_restarts": 1}, False)], ids=["no key", "1"])
def test_processes_restart_here_only_if_the_job_file_says_so(
    life_cycle: dict[str, int], fails: bool, tmp_path: Path
) -> None:
    (tmp_path / "once.py").write_text(FAILS_ONCE)
    section = {"command": ["torchrun", "once.py", str(tmp_path / "tried")], "code": "."}
    job = {"name": "once", "run": section} | ({"life_cycle": life_cycle} if life_cycle else {})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    options = ("--processes=1", f"--run={tmp_path / 'run'}")
    ran = run_trainway("launch", str(tmp_path / "job.yaml"), *options, directory=ROOT)
    assert (ran.returncode != 0) is fails, ran.stderr


@pytest.mark.exhaustive
def test_a_launch_that_is_stopped_leaves_a_checkpoint_and_says_how_to_go_on(corpus: Path, tmp_path: Path) -> None:
    data = {"train": str(corpus), "sequence_length": 64}
    job_file = write_job(
        tmp_path, data=data, steps=5000, checkpoint={"every": 5000, "location": str(tmp_path / "ckpt")}
    )
    run = tmp_path / "run"
    command = [sys.executable, "-m", "trainway.cli", "launch", str(job_file), f"--run={run}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    for line in process.stdout:
        if "step=3/" in line:
            break
    handle = read_launch(run)["handle"]
    assert watch.state(handle).phase is Phase.RUNNING
    followed = watch.logs(handle, follow=True)
    assert any(line.startswith("[0 0] ") and "step=3/" in line for line in followed)
    watch.stop(handle)
    # Both ranks' lines come until the job has ended, and then no more.
    assert {line.split("] ")[0] for line in followed} <= {"[0 0", "[0 1"}
    _, error = process.communicate(timeout=60)
    assert watch.state(handle) == State(Phase.STOPPED, "SIGTERM")
    assert "the job was stopped by SIGTERM" in error and f"trainway resume {run}" in error
    assert list((tmp_path / "ckpt").glob("step-*/.metadata"))
    assert json.loads((run / "launch.json").read_text())["stopped_by"] == "SIGTERM"


def test_a_launcher_that_is_gone_has_failed_and_nobody_else_is_stopped_for_it(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "3600"])
    handle = {"run": str(tmp_path), "pid": str(sleeper.pid), "started_at": "Thu Jan  1 00:00:00 1970"}
    record_submission(tmp_path, "local", handle, {}, {})
    try:
        assert watch.state(handle).phase is Phase.FAILED
        watch.stop(handle)
        assert sleeper.poll() is None, "its number was used again by another process"
    finally:
        sleeper.kill()
        sleeper.wait()


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    for name, started in {"old": "2026-11-20", "new": "2026-11-21"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "launch.json").write_text(json.dumps({"started": started}))
    (tmp_path / "no-run").mkdir()
    assert [run.name for run in runs_below(tmp_path)] == ["new", "old"]
