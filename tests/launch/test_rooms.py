"""Whoever follows a launch with a debugger to its target enters few modules, and none of them often."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.launch.conftest import write_job
from tests.synthesis import ROOT

MOST_ROOMS, MOST_ENTRIES = 25, 4
PLATFORMS = {"local": "", "kubernetes": "eks-p5", "slurm": "hyperpod-slurm-p5en", "sagemaker": "eks-p5"}


def rooms(directory: Path, target: str, kind: str, planted: str = "") -> dict[str, dict[str, int]]:
    """Return the entries of a dry run in a process of its own, in which nothing is cached.

    The process has no credentials, so that the platform is as its file describes it. `planted` is run before.
    """
    words = ["launch", str(job_file(directory, kind, target)), "--target", target, "--dry-run"]
    if name := PLATFORMS[target]:
        # The role of training jobs is what SageMaker needs, and changes nothing for the other targets.
        document = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
        document["iam"] = {**document.get("iam", {}), "training_jobs": True}
        file = directory / "platform.yaml"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        words += ["--platform", str(file)]
    program = (
        f"import json\nfrom docs.generators.rooms import rooms_of_launch\n{planted}\n"
        f"print(json.dumps(rooms_of_launch({words})))"
    )
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | nowhere
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def job_file(directory: Path, kind: str, target: str) -> Path:
    """Write a job file that suits the platforms above, or this machine."""
    team = {} if target == "local" else {"team": "research"}
    corpus = str(directory) if target == "local" else "s3:/corpus/research/small"
    if kind == "model":
        checkpoint = {"location": str(directory / "checkpoints")} if target == "local" else {}
        data = {"train": corpus, "sequence_length": 64}
        return write_job(
            directory, data=data, checkpoint={"every": 4, **checkpoint}, batch={"global": 128, "micro": 1}, **team
        )
    run = {"command": ["torchrun", "train.py"], "inputs": {"data": corpus}} if team else {"command": ["true"]}
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump({"name": "small", **team, "run": run}), encoding="utf-8")
    return file


@pytest.mark.parametrize("kind", ["model", "run"])
@pytest.mark.parametrize("target", PLATFORMS)
def test_a_launch_enters_few_modules_before_its_target(tmp_path: Path, target: str, kind: str) -> None:
    found = rooms(tmp_path, target, kind)
    assert len(found["before"]) <= MOST_ROOMS, list(found["before"])
    assert often(found["whole"]) == {}


def often(entries: dict[str, int]) -> dict[str, int]:
    """Return the modules that are entered too often."""
    return {room: count for room, count in entries.items() if count > MOST_ENTRIES}


# Replaces a function of the way by one that goes through further modules, as if somebody had put them there.
HOPS = """
from trainway.launch.starting import prepare
for number in range({rooms}):
    hop = {{"next": prepare.check_names}}
    source = "def check_names(*given):\\n    for _ in range({times}):\\n        next(*given)"
    exec(compile(source, f"{folder}/trainway/launch/planted_{{number}}.py", "exec"), hop)
    prepare.check_names = hop["check_names"]
"""


def test_planted_modules_are_found(tmp_path: Path) -> None:
    found = rooms(tmp_path, "slurm", "model", HOPS.format(rooms=10, times=1, folder=ROOT))["before"]
    assert len(found) > MOST_ROOMS
    assert "trainway.launch.planted_9" in found
    found = rooms(tmp_path, "slurm", "model", HOPS.format(rooms=1, times=5, folder=ROOT))["before"]
    assert often(found)["trainway.launch.program.locations"] == 5
