"""docs/your-program.md: its commands run as they are written, and its tables have every key and variable."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.launch.foreign import write_foreign_job
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.run_file import RunFile, RunSection, StopSection
from trainway.launch.kubernetes.process import KILL_RANKS_AFTER
from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND, STOPPED
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.spec.handoff import HandOff

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-program.md").read_text()
# Neither platform is deployed here.
ELSEWHERE = "--target slurm"


@pytest.mark.exhaustive
def test_its_commands_run_in_a_copy_of_the_example(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/your-program", tmp_path / "examples/your-program")
    first, second = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for block in (first, second):
        lines = [line for line in block.splitlines() if ELSEWHERE not in line]
        ran = subprocess.run(
            ["bash", "-euc", "\n".join(lines)],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "no problems" in ran.stdout and "succeeded" in ran.stdout and "60" in ran.stdout
    assert "[0 0] step=60 loss=" in ran.stdout
    assert (tmp_path / "runs/first/outputs/checkpoint.pt").is_file()
    assert not [each for each in (tmp_path / "examples/your-program").iterdir() if each.name == "outputs"]


def test_its_job_file_is_one_and_its_table_has_every_key() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    RunFile.model_validate(yaml.safe_load(shown))
    keys = {*RunSection.model_fields, *(f"stop.{name}" for name in StopSection.model_fields)} - {"stop"}
    table = PAGE.split("## With a job file")[1].split("## What the program finds")[0]
    assert set(re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)) == keys
    assert f"| {StopSection().grace} |" in table and f"| {StopSection().signal} |" in table


def test_its_variables_and_statuses_are_the_codes(tmp_path: Path, hand_off: HandOff) -> None:
    program = load_program(write_foreign_job(tmp_path, inputs={"data": "/x"}))
    there = on_slurm(hand_off, instance_type="p5.48xlarge")
    asked = Request(program, "first", there, IMAGE, allocate(program, there, CATALOGUE))
    starter = (ROOT / "trainway/launch/node/node_of_run.py").read_text()
    told = {name for name in asked.environment(asked.on_nodes()) if name.startswith("TRAINWAY_")}
    told |= set(re.findall(r'"(TRAINWAY_[A-Z_]+)": ', starter))
    # The two of the training job are of no use to a program.
    told -= {"TRAINWAY_JOB", "TRAINWAY_LOCATIONS", "TRAINWAY_CHECKPOINTS", "TRAINWAY_INPUT_DATA"}
    listed = set(
        re.findall(r"`(TRAINWAY_[A-Z_]+)", PAGE.split("## What the program finds")[1].split("torchrun reads")[0])
    )
    assert listed - {"TRAINWAY_INPUT_"} == told
    assert f"| {STOPPED} |" in PAGE and f"| {NOT_EXECUTABLE}, {NOT_FOUND} |" in PAGE
    assert f"at most {KILL_RANKS_AFTER} seconds" in PAGE
