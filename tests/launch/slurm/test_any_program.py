"""On real Slurm: a program that is not Trainway's runs on two nodes, is stopped, resumed, and fails with a reason."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.container import stand_ins
from tests.launch.foreign import SAVES, write_foreign_job
from tests.launch.planted_faults import FAULTS
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.representatives import with_representatives
from trainway.launch.job_file.programs import load_program
from trainway.launch.node.nodes_of_run import read_nodes
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import LockedPackages
from trainway.launch.program.request import Request
from trainway.launch.slurm import SlurmOptions, logs, state, stop, submit
from trainway.launch.target.protocol import Handle, Phase
from trainway.launch.target.wanted_lines import WantedLines
from trainway.spec.handoff import HandOff

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
ENVIRONMENT = SlurmOptions(environment=PurePosixPath(sys.prefix))
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"], settings={"KillWait": 5}) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


def launch(
    cluster: Machines, hand_off: HandOff, directory: Path, run: str, lock: str = "", on_node: int = 1, **changes: Any
) -> Handle:
    """Submit the program on two nodes with some ranks on each. Its code is on the shared file system."""
    program = load_program(write_foreign_job(directory, nodes=2, outputs="fsx:/outputs", **changes))
    program = dataclasses.replace(program, lock=LockedPackages(lock) if lock else None)
    there = on_slurm(hand_off, mount=str(cluster.shared))
    code = cluster.shared / "code"
    shutil.copytree(directory / "code", code, dirs_exist_ok=True)
    allocation = dataclasses.replace(allocate(program, there, CATALOGUE), ranks=on_node)
    return submit(Request(program, run, there, IMAGE, allocation, str(code)), CATALOGUE, ENVIRONMENT)


def ends(handle: Handle) -> Phase:
    wait_for(f"the run ends, {log(handle)}", lambda: state(handle).phase in OVER)
    return state(handle).phase


def log(handle: Handle) -> str:
    file = Path(handle["directory"]) / "logs" / "slurm.log"
    return file.read_text()[-3000:] if file.exists() else ""


def steps(cluster: Machines, run: str) -> int:
    state = cluster.shared / "outputs" / run / "step"
    return int(state.read_text()) if state.exists() else 0


def of_the_program(cluster: Machines) -> list[str]:
    """The processes of the program on all nodes, which are processes of this machine, too."""
    found = []
    for each in (each for each in Path("/proc").iterdir() if each.name.isdigit()):
        try:
            line = each.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
            is_of_the_cluster = str(cluster.shared).encode() in each.joinpath("environ").read_bytes()
        except OSError:
            continue
        if is_of_the_cluster and "train.py" in line and "start_program" not in line and "srun" not in line:
            found.append(line)
    return found


@pytest.mark.exhaustive
def test_torchrun_on_two_nodes_is_stopped_as_a_whole_and_resumed(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    handle = launch(cluster, hand_off, tmp_path, "first", steps=5000)
    wait_for(f"it trains {log(handle)}", lambda: steps(cluster, "first") > 2)
    stop(handle)
    assert ends(handle) is Phase.STOPPED, log(handle)
    saved, run = steps(cluster, "first"), Path(handle["directory"])
    records = [json.loads(file.read_text()) for file in sorted((run / "attempts/1").glob("node-*.json"))]
    assert [(each["node_rank"], each["outcome"]) for each in records] == [(0, "stopped"), (1, "stopped")]
    assert "killed" not in str(records), "both nodes ended within their grace"
    wait_for("all processes are gone", lambda: not of_the_program(cluster))
    assert not cluster.ask("squeue", "--noheader")

    again = launch(cluster, hand_off, tmp_path, "first", steps=saved + 3)
    assert ends(again) is Phase.SUCCEEDED, log(again)
    said = list(logs(again, follow=False))
    assert any(line.endswith(f"2 ranks begin after step {saved}") for line in said), said
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert events[-1]["step"] == steps(cluster, "first") == saved + 3
    assert (run / "attempt").read_text().strip() == "2"
    assert [each.partition(" ")[0] for each in read_nodes([run / "nodes"], "attempt 2")] == ["n1", "n2"]
    assert {each.name for each in run.glob("logs/start-*")} == {"start-0", "start-1"}
    second = list(logs(again, follow=False, wanted=WantedLines(attempt=2)))
    assert not [line for line in second if "begin after step 0" in line] and second


def test_a_task_for_each_gpu_has_the_numbers_of_slurm_on_every_node(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    names = [
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "SLURM_JOB_ID",
    ]
    task = "import json, os, pathlib, socket\n"
    task += "at = pathlib.Path(os.environ['TRAINWAY_OUTPUT']) / f'{os.environ[\"SLURM_PROCID\"]}.json'\n"
    task += f"told = {{name: os.environ[name] for name in {names}}} | {{'host': os.environ['SLURMD_NODENAME']}}\n"
    task += "at.write_text(json.dumps(told))\n"
    changes: dict[str, Any] = {"program": task, "command": ["python3", "train.py"], "ranks": "per-gpu", "metrics": None}
    handle = launch(cluster, hand_off, tmp_path, "tasks", on_node=2, **changes)
    assert ends(handle) is Phase.SUCCEEDED, log(handle)
    found = [json.loads((cluster.shared / f"outputs/tasks/{rank}.json").read_text()) for rank in range(4)]
    for rank, told in enumerate(found):
        assert {told["RANK"], told["SLURM_PROCID"]} == {str(rank)} and told["SLURM_JOB_ID"]
        assert {told["WORLD_SIZE"], told["SLURM_NTASKS"]} == {"4"}
        assert {told["LOCAL_RANK"], told["SLURM_LOCALID"]} == {str(rank % 2)}
        assert told["SLURM_NODEID"] == str(rank // 2)
        # Programs take the first host of the list of Slurm for that of rank 0.
        assert told["host"] == ("n1", "n2")[rank // 2]


def test_a_program_that_does_not_listen_is_killed_on_both_nodes(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    stubborn = "trap '' TERM; touch $TRAINWAY_OUTPUT/begun-$TRAINWAY_NODE_RANK; while :; do sleep 1; done # train.py"
    command = ["bash", "-c", stubborn]
    handle = launch(cluster, hand_off, tmp_path, "stubborn", command=command, stop={"grace": 2})
    begun = [cluster.shared / "outputs/stubborn" / f"begun-{node}" for node in range(2)]
    wait_for(f"it begins {log(handle)}", lambda: all(each.exists() for each in begun))
    stop(handle)
    assert ends(handle) is Phase.STOPPED, log(handle)
    assert "it was killed after 2 seconds" in log(handle)
    wait_for("all processes are gone", lambda: not of_the_program(cluster))


@pytest.mark.parametrize("fault", with_representatives(FAULTS, ["an absent input"]))
def test_a_program_that_cannot_succeed_fails_once_and_says_why(
    fault: str, cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    handle = launch(cluster, hand_off, tmp_path, fault.replace(" ", "-").lower(), **FAULTS[fault].run)
    assert ends(handle) is Phase.FAILED
    assert state(handle).reason.startswith(f"failed: {FAULTS[fault].why}")
    assert (Path(handle["directory"]) / "attempt").read_text().strip() == "1"


@pytest.mark.exhaustive
def test_a_run_whose_outputs_vanished_does_not_begin_anew(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> None:
    for _ in range(2):
        handle = launch(cluster, hand_off, tmp_path, "gone", command=SAVES)
        assert ends(handle) is Phase.SUCCEEDED, log(handle)
    shutil.rmtree(cluster.shared / "outputs/gone")
    refused = launch(cluster, hand_off, tmp_path, "gone", command=SAVES)
    assert ends(refused) is Phase.FAILED
    assert "the outputs of the run are gone. Attempt 2 had 1 file" in state(refused).reason
    assert not (cluster.shared / "outputs/gone").exists()


def test_both_nodes_have_the_packages_that_one_of_them_installed(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    wheel = stand_ins.wheel(cluster.shared / "wheels", "greeting", "1.0", {"greeting.py": "HELLO = 'hello'"})
    # A node has no network here, and pip takes its settings from the job's environment.
    offline = {"PIP_NO_INDEX": 1, "PIP_FIND_LINKS": str(wheel.parent)}
    says = "import greeting, os; print(greeting.HELLO, 'from', os.environ['TRAINWAY_NODE_RANK'], flush=True)"
    locked = f"greeting==1.0 --hash=sha256:{stand_ins.sha256(wheel)}\n"
    command = ["python", "-c", says]
    handle = launch(cluster, hand_off, tmp_path, "packed", lock=locked, command=command, environment=offline)
    assert ends(handle) is Phase.SUCCEEDED, log(handle)
    said = list(logs(handle, follow=False))
    for node in range(2):
        (line,) = (line for line in said if f"hello from {node}" in line)
        assert not line.startswith("[slurm]"), "the log of the program has it, and slurm.log has not"
    assert log(handle).count("pip installs the packages") == 1
    assert len(list((cluster.shared / "packages").rglob("*.tar"))) == 1

    forged = locked.replace(stand_ins.sha256(wheel), "0" * 64)
    changed = launch(cluster, hand_off, tmp_path, "forged", lock=forged, command=command, environment=offline)
    assert ends(changed) is Phase.FAILED
    assert state(changed).reason.endswith("a file of the index does not have the checksum of the lock")
    assert (Path(changed["directory"]) / "attempt").read_text().strip() == "1"
