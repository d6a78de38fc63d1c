"""`ranks: per-gpu` starts any program once for each GPU, with the variables that programs of srun and torchrun read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_trainway
from tests.launch.foreign import write_foreign_job
from tests.launch.test_any_program import trainway
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.job_file.programs import load_program
from trainway.launch.local import watch
from trainway.launch.node.exit_statuses import STOPPED
from trainway.launch.node.once_per_gpu import rendezvous, task_variables
from trainway.launch.program.launcher_conflicts import conflicts_of
from trainway.launch.runs.run_directory import read_launch

# It knows neither torch nor Trainway.
TASK = """\
import json, os, pathlib, signal, sys, time
at = pathlib.Path(os.environ["TRAINWAY_OUTPUT"])
names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NNODES", "RANK", "LOCAL_RANK", "WORLD_SIZE")
(at / f"rank-{os.environ['RANK']}.json").write_text(json.dumps({name: os.environ[name] for name in names}))
def save(number, frame):
    (at / f"saved-{os.environ['RANK']}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
if "--fail" in sys.argv and os.environ["SLURM_PROCID"] == "1":
    sys.exit("no corpus for rank 1")
if "--wait" in sys.argv:
    time.sleep(3600)
"""


def tasks(run: Path) -> list[dict[str, str]]:
    return [json.loads(file.read_text()) for file in sorted((run / "outputs").glob("rank-*.json"))]


@pytest.mark.parametrize(
    "changes",
    [
        {"command": ["python", "train.py"]},
        {"command": None, "script": "echo begins\npython train.py $UNSET"},
    ],
)
def test_each_task_has_its_number_by_both_names(changes: dict[str, Any], tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, program=TASK, ranks="per-gpu", metrics=None, **changes)
    done = run_trainway("launch", str(job), "--run=runs/first", "--processes=3", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert tasks(tmp_path / "runs/first") == [
        {
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank),
            "SLURM_NTASKS": "3",
            "SLURM_NNODES": "1",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "3",
        }
        for rank in range(3)
    ]


def test_a_task_that_fails_ends_the_others_and_says_why(tmp_path: Path) -> None:
    command = ["python", "train.py", "--fail", "--wait"]
    job = write_foreign_job(tmp_path, program=TASK, ranks="per-gpu", metrics=None, command=command)
    failed = run_trainway("launch", str(job), "--run=runs/first", directory=tmp_path)
    assert failed.returncode not in (0, STOPPED) and "no corpus for rank 1" in failed.stderr


def test_a_stop_reaches_every_task(tmp_path: Path) -> None:
    script = "python train.py --wait"
    job = write_foreign_job(tmp_path, program=TASK, ranks="per-gpu", metrics=None, command=None, script=script)
    process, run = trainway(tmp_path, "launch", str(job), "--run=runs/first"), tmp_path / "runs/first"
    wait_for("both tasks have begun", lambda: len(tasks(run)) == 2)
    watch.stop(read_launch(run)["handle"])
    process.communicate(timeout=300)
    assert process.returncode == STOPPED
    assert sorted(each.name for each in (run / "outputs").glob("saved-*")) == ["saved-0", "saved-1"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ["pythonx", "train.py"]}, "pythonx: there is no such command on PATH"),
        ({"command": ["python", "trian.py"]}, "trian.py"),
    ],
)
def test_a_program_that_does_not_exist_is_named(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, program=TASK, ranks="per-gpu", metrics=None, **changes)
    refused = run_trainway("launch", str(job), "--run=runs/first", directory=tmp_path)
    assert refused.returncode not in (0, 1) and said in refused.stderr


def test_the_names_of_the_step_of_slurm_are_consistent() -> None:
    last = {"RANK": "15", "LOCAL_RANK": "7", "GROUP_RANK": "1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
    told = task_variables(last)
    assert told["SLURM_NODEID"] == "1" and told["SLURM_NTASKS_PER_NODE"] == "8"
    assert told["SLURM_TASKS_PER_NODE"] == told["SLURM_STEP_TASKS_PER_NODE"] == "8(x2)"
    assert {told[name] for name in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS")} == {"16"}


def test_ranks_follow_the_numbers_of_nodes_unless_there_may_be_fewer() -> None:
    fixed = {"PET_RDZV_BACKEND": "c10d", "PET_NNODES": "2"}
    assert rendezvous(fixed, 1) == {"PET_RDZV_BACKEND": "static", "PET_NODE_RANK": "1"}
    assert rendezvous({**fixed, "PET_NNODES": "1:2"}, 1) == rendezvous({"PET_STANDALONE": "1"}, 0) == {}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"command": ["torchrun", "train.py"]}, "each rank would start torchrun, which starts ranks itself"),
        ({"command": None, "script": "accelerate launch train.py"}, "each rank would start accelerate"),
        ({"command": ["bash", "run.sh"]}, "run.sh: each rank would start deepspeed"),
        ({"command": ["srun", "python", "train.py"]}, "each rank would start srun"),
        ({"command": ["python", "train.py"]}, ""),
        ({"command": None, "script": "export A=$SLURM_PROCID\npython train.py --rank $A"}, ""),
        ({"command": ["python", "train.py"], "environment": {"NCCL_P2P_DISABLE": "1"}}, "NCCL_P2P_DISABLE turns"),
    ],
)
def test_a_launcher_below_the_ranks_is_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, program=TASK, nodes=2, ranks="per-gpu", **changes)
    (tmp_path / "code/run.sh").write_text("deepspeed train.py\n")
    found = conflicts_of(load_program(job), tmp_path / "code", 8)
    assert [each.why.startswith(why) and each.is_certain for each in found] == ([True] if why else [])
