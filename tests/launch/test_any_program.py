"""A program that is not Trainway's is launched, stopped, and resumed on this machine, and says how it ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_trainway
from tests.launch.foreign import COUNT, write_foreign_job
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.local import watch
from trainway.launch.node.exit_statuses import NOT_FOUND, STOPPED
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.runs.status import status_of
from trainway.launch.target.protocol import Phase

ROOT = Path(__file__).parents[2]


def trainway(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trainway.cli", *arguments]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def step_of(run: Path) -> int:
    state = run / "outputs" / "step"
    return int(state.read_text()) if state.exists() else 0


def test_torchrun_is_stopped_and_resumed_and_its_outputs_are_in_place(tmp_path: Path) -> None:
    job_file, run = write_foreign_job(tmp_path, steps=2000, program=COUNT), tmp_path / "runs/first"
    process = trainway(tmp_path, "launch", str(job_file), "--run=runs/first")
    wait_for("it trains", lambda: step_of(run) > 2)
    watch.stop(read_launch(run)["handle"])
    _, errors = process.communicate(timeout=300)
    assert process.returncode == STOPPED and "the job was stopped by SIGTERM" in errors
    assert watch.state(read_launch(run)["handle"]).phase is Phase.STOPPED
    saved = step_of(run)

    kept = (run / "job.yaml").read_text()
    (run / "job.yaml").write_text(kept.replace("'2000'", f"'{saved + 3}'"))
    resumed = run_trainway("resume", "runs/first", directory=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert f"2 ranks begin after step {saved}" in resumed.stdout
    assert status_of(run)[2:4] == ("succeeded", str(saved + 3))
    handle = read_launch(run)["handle"]
    assert f"[0 0] 2 ranks begin after step {saved}" in list(watch.logs(handle, follow=False)), "of this attempt only"
    outcomes = [json.loads((run / f"attempts/{number}/node-0.json").read_text())["outcome"] for number in (1, 2)]
    assert outcomes == ["stopped", "succeeded"]
    assert sorted(each.name for each in (tmp_path / "code").iterdir()) == ["train.py"], "nothing is written beside it"


@pytest.mark.parametrize(
    ("changes", "status", "why"),
    [
        ({"command": ["torchrunx", "train.py"]}, NOT_FOUND, "torchrunx: there is no such command on PATH"),
        ({"command": ["python", "-c", "raise ValueError('no such corpus')"]}, 1, "ValueError: no such corpus"),
        ({"command": None, "script": "echo no room >&2; exit 4"}, 4, "no room"),
    ],
)
def test_a_program_that_fails_says_why(changes: dict[str, Any], status: int, why: str, tmp_path: Path) -> None:
    job_file = write_foreign_job(tmp_path, **changes)
    launched = run_trainway("launch", str(job_file), "--run=runs/bad", directory=tmp_path)
    assert launched.returncode == status
    assert f"why: {why}" in launched.stderr and "launch.json" not in launched.stderr
    state = watch.state(read_launch(tmp_path / "runs/bad")["handle"])
    assert state.phase is Phase.FAILED and state.reason
    assert not (tmp_path / "runs/bad/attempts/2").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"command": ["torchrun", "trian.py"]}, "there is no file"),
        ({"code": "elsewhere"}, "there is no directory"),
    ],
)
def test_code_that_is_absent_is_found_out_before_the_launch(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    job_file = write_foreign_job(tmp_path, **changes)
    for command in (("check", str(job_file)), ("launch", str(job_file), "--run=runs/bad")):
        refused = run_trainway(*command, directory=tmp_path)
        assert refused.returncode == 2 and why in refused.stderr and "fix: " in refused.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train.py",), "-- torchrun train.py"),
        (("--processes=1", "--", "python", "train.py", "--lr", "1"), "-- python train.py --lr 1"),
        (("train.py", "--nodes=2", "--until-step=3"), "--until-step cannot be used with a command"),
        (("../foreign.yaml", "--nodes=2"), "--nodes cannot be used with a job file"),
        (("absent.yaml",), "there is no such file"),
        (("--", "sleep 1; date"), "`-- bash -c '…'`"),
    ],
)
def test_a_command_needs_no_job_file(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    write_foreign_job(tmp_path)
    shown = run_trainway("launch", "--dry-run", *words, directory=tmp_path / "code")
    assert said in shown.stdout + shown.stderr
    assert shown.returncode == (0 if said.startswith("-- ") else 2)


def test_a_job_with_data_on_a_platform_says_so_where_no_platform_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    refused = run_trainway("launch", "--dry-run", str(ROOT / "examples/jobs/tiny.yaml"), directory=tmp_path)
    assert refused.returncode == 2
    why = "why: fsx:/corpus/python-stdlib is in the storage of a platform, and there is no platform.yaml here"
    assert why in refused.stderr
    assert "`trainway connect`" in refused.stderr


# Rank 1 fails by itself, and torchrun ends rank 0.
FAILING = """
import os, time
if os.environ["RANK"] == "1":
    raise ValueError("shard 00412 is damaged")
time.sleep(3600)
"""


# tests/explain/test_gather.py explains a failed rank of a run of this machine.
@pytest.mark.exhaustive
def test_a_rank_that_fails_is_explained(tmp_path: Path) -> None:
    job_file = write_foreign_job(tmp_path)
    (tmp_path / "code" / "train.py").write_text(FAILING)
    launched = run_trainway("launch", str(job_file), "--run=runs/bad", directory=tmp_path)
    assert launched.returncode == 1 and "why: ValueError: shard 00412 is damaged" in launched.stderr
    explained = run_trainway("explain", "runs/bad", directory=tmp_path)
    assert "ValueError: shard 00412 is damaged" in explained.stdout, explained.stderr
    assert "attempt_0/1/stderr.log" in explained.stdout, explained.stderr
