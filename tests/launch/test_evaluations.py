"""Each complete checkpoint of a local run gets one evaluation, even if the launching process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.command_line import run_trainway
from tests.launch.test_any_program import trainway
from tests.lifecycle_scripts.slurm_cluster import wait_for

MARKER = "checkpoint-{step}/complete"
# The program saves three checkpoints, and begins a fourth that it never completes.
TRAIN = """\
for step in 2 4 6; do
  mkdir -p $TRAINWAY_OUTPUT/checkpoint-$step $TRAINWAY_OUTPUT/checkpoint-5
  echo $step >$TRAINWAY_OUTPUT/checkpoint-$step/weights
  touch $TRAINWAY_OUTPUT/checkpoint-$step/complete
done
for _ in $(seq 36000); do test -e {directory}/released && break; sleep 0.1; done
"""
# The evaluation records that it ran. The evaluation of step 4 fails.
EVALUATE = """\
echo "$TRAINWAY_EVALUATED_RUN $TRAINWAY_CHECKPOINT_STEP" >>{directory}/evaluated
echo score=$(cat $TRAINWAY_CHECKPOINT/weights)
{wait}
test $TRAINWAY_CHECKPOINT_STEP != 4
"""


def write(directory: Path, *, wait: str = "") -> None:
    job = {
        "name": "sft",
        "run": {"script": TRAIN.format(directory=directory), "stop": {"grace": 5}},
        "on_checkpoint": {"job": "evaluate.yaml", "marker": MARKER},
    }
    script = EVALUATE.format(directory=directory, wait=wait)
    evaluation = {"name": "evaluate", "run": {"script": script, "metrics": {"score": r"score=(\d+)"}}}
    for name, document in {"job.yaml": job, "evaluate.yaml": evaluation}.items():
        (directory / name).write_text(yaml.safe_dump(document))


def evaluated(directory: Path) -> list[str]:
    file = directory / "evaluated"
    return sorted(file.read_text().splitlines()) if file.exists() else []


def follower_of(launch: subprocess.Popen[str]) -> int:
    """Return the process that launches the evaluations beside a local run."""
    children = Path(f"/proc/{launch.pid}/task/{launch.pid}/children").read_text().split()
    (found,) = (int(each) for each in children if b"\0evaluate\0" in Path(f"/proc/{each}/cmdline").read_bytes())
    return found


def test_each_complete_checkpoint_is_evaluated_once_and_a_failure_is_told(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "released").touch()
    launched = run_trainway("launch", "job.yaml", "--run=runs/first", directory=tmp_path)
    assert launched.returncode == 0, launched.stderr
    assert evaluated(tmp_path) == ["first 2", "first 4", "first 6"]
    assert "evaluation of step 2: runs/first-step-2 is succeeded score=2" in launched.stderr
    assert "evaluation of step 4: runs/first-step-4 is failed: bash ended with exit status 1" in launched.stderr

    [row] = json.loads(run_trainway("status", "runs/first", "--json", directory=tmp_path).stdout)
    assert [(each["step"], each["phase"], each["numbers"]) for each in row["evaluations"]] == [
        (2, "succeeded", {"score": 2.0}),
        (4, "failed", {"score": 4.0}),
        (6, "succeeded", {"score": 6.0}),
    ]
    assert run_trainway("report", "runs/first", "--no-open", directory=tmp_path).returncode == 0
    page = (tmp_path / "runs/first/report.html").read_text()
    assert "<h2>Evaluations</h2>" in page and "runs/first-step-6" in page and "score 6.000" in page

    again = run_trainway("evaluate", "runs/first", directory=tmp_path)
    assert again.returncode == 1, "an evaluation has failed"
    assert len(evaluated(tmp_path)) == 3, again.stdout + again.stderr
    named = run_trainway("evaluate", "runs/first", "--step=4", directory=tmp_path)
    assert named.returncode == 2 and "runs/first-step-4 evaluates it, and is failed" in named.stderr
    absent = run_trainway("evaluate", "runs/first", "--step=5", directory=tmp_path)
    assert absent.returncode == 2 and "the complete checkpoints are 2, 4, 6" in absent.stderr


# The test before it evaluates each checkpoint once. `make test-all` ends followers, of one person and of two.
@pytest.mark.exhaustive
def test_a_follower_that_is_killed_leaves_no_gap_and_no_duplicate(tmp_path: Path) -> None:
    write(tmp_path, wait=f"for _ in $(seq 36000); do test -e {tmp_path}/released && break; sleep 0.1; done")
    launched = trainway(tmp_path, "launch", "job.yaml", "--run=runs/first")
    wait_for("the first evaluation runs", lambda: evaluated(tmp_path) == ["first 2"])
    os.kill(follower_of(launched), signal.SIGKILL)
    again = trainway(tmp_path, "evaluate", "runs/first")
    assert again.stdout is not None
    assert again.stdout.readline() == "evaluation of step 2: runs/first-step-2 is running\n"
    (tmp_path / "released").touch()
    assert launched.wait(300) == 0
    output, errors = again.communicate(timeout=1800)
    assert evaluated(tmp_path) == ["first 2", "first 4", "first 6"], output + errors
    for step in (2, 4, 6):
        assert [each.name for each in (tmp_path / f"runs/first-step-{step}/attempts").glob("[0-9]*")] == ["1"]


@pytest.mark.exhaustive
def test_an_evaluation_is_resumed_with_its_checkpoint(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "released").touch()
    assert run_trainway("launch", "job.yaml", "--run=runs/first", directory=tmp_path).returncode == 0
    resumed = run_trainway("resume", "runs/first-step-2", directory=tmp_path)
    assert resumed.returncode == 0 and "score=2" in resumed.stdout, resumed.stderr
    assert evaluated(tmp_path) == ["first 2", "first 2", "first 4", "first 6"]


def test_an_evaluation_that_cannot_be_submitted_is_refused_before_the_run_is(tmp_path: Path) -> None:
    write(tmp_path)
    file = tmp_path / "evaluate.yaml"
    file.write_text(file.read_text().replace("script: ", f"image: jobs/llm@sha256:{'5e' * 32}\n  script: "))
    refused = run_trainway("launch", "job.yaml", "--run=runs/first", directory=tmp_path)
    assert refused.returncode == 2 and "evaluate cannot run on this machine" in refused.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("words", "why"), [(("evaluate", "runs/first"), "has no section `on_checkpoint`")])
def test_a_run_without_evaluations_is_refused(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({"name": "sft", "run": {"script": "true"}}))
    assert run_trainway("launch", "job.yaml", "--run=runs/first", directory=tmp_path).returncode == 0
    assert json.loads((tmp_path / "runs/first/launch.json").read_text())["exit_status"] == 0
    refused = run_trainway(*words, directory=tmp_path)
    assert refused.returncode == 2 and why in refused.stderr
