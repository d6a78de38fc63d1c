"""Programs of others run unchanged: each is killed here, resumed on two nodes of real Slurm, stopped, and finished."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

import pytest

from tests.launch.conftest import make_hand_off
from tests.launch.programs import packages
from tests.launch.programs.cpu_time import more_cpu_time
from tests.launch.programs.runs_here import RUNS_HERE, Program, write_inputs, write_job
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import LockedPackages
from trainway.launch.program.request import Request
from trainway.launch.runs.logs import failure
from trainway.launch.runs.status import status_of
from trainway.launch.slurm import SlurmOptions, logs, state, stop, submit
from trainway.launch.target.protocol import Handle, Phase

WHY_NOT = missing() or packages.missing()
# Each run imports its libraries three times or more on each of three starts.
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
ENVIRONMENT = SlurmOptions(environment=PurePosixPath(sys.prefix))
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)
# More than any run here gets to.
NEVER = 1_000_000
# What the starter says of a Ray that cannot start (trainway/launch/node).
DID_NOT_BEGIN = "so the program did not begin"
# Of a start on a busy machine.
WAIT = 600.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"], settings={"KillWait": 5}) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


@pytest.fixture(scope="module")
def inputs(cluster: Machines) -> dict[str, str]:
    directory = cluster.shared / "inputs"
    directory.mkdir()
    return write_inputs(directory)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RUNS_HERE)
def test_a_program_is_killed_resumed_stopped_and_finished(
    name: str, inputs: dict[str, str], cluster: Machines, tmp_path: Path
) -> None:
    program = RUNS_HERE[name]
    # `ray start` fails after 30 seconds, and no setting changes that.
    with more_cpu_time(running_on(cluster)) if name == "ray-train" else nullcontext():
        outputs = killed_here(program, inputs, tmp_path)
        kept = cluster.shared / "runs" / program.name / "outputs"
        shutil.copytree(outputs, kept, dirs_exist_ok=True)
        last = stopped_on_slurm(program, inputs, cluster, tmp_path)
        finished_on_slurm(program, inputs, cluster, tmp_path, last + 5)


def running_on(cluster: Machines) -> list[int]:
    """Return the IDs of this process and of all processes on the nodes of the cluster."""
    spaces = {Path(f"/proc/{cluster.pids[node]}/ns/pid").readlink() for node in cluster.nodes}
    found = [os.getpid()]
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end between the listing and the read.
        with suppress(OSError):
            if (process / "ns/pid").readlink() in spaces:
                found.append(int(process.name))
    return found


def killed_here(program: Program, inputs: dict[str, str], directory: Path) -> Path:
    """Start the program on two ranks, kill one once there is a checkpoint, and return the outputs.

    A program that did not begin is resumed: see `begun`.
    """
    job, run = write_job(directory, program, inputs, nodes=1, steps=NEVER), directory / "runs" / program.name
    shutil.copy(packages.lock(program.name), job.parent)
    process = trainway(directory, "launch", str(job), f"--run={run}")
    try:
        for _ in range(3):
            wait_for(
                f"{program.name} saves {tail(run / 'logs')}",
                partial(lambda ours: ours.poll() is not None or bool(checkpoints(program, run / "outputs")), process),
                WAIT,
            )
            if process.poll() is None or DID_NOT_BEGIN not in (failure(run) or ""):
                break
            process = trainway(directory, "resume", str(run))
        assert process.poll() is None, process.communicate()
        # The last one, which is not the rank that saves.
        os.kill(max(ranks_of(program, run)), signal.SIGKILL)
        _, errors = process.communicate(timeout=1800)
    finally:
        process.kill()
    assert process.returncode not in (0, 75), errors
    assert "why: " in errors and status_of(run)[2] == "failed"
    assert not ranks_of(program, run), "nothing of it is left"
    explained = trainway(directory, "explain", str(run))
    said, _ = explained.communicate(timeout=1800)
    assert explained.returncode == 0 and "SIGKILL" in said, said
    return run / "outputs"


def stopped_on_slurm(program: Program, inputs: dict[str, str], cluster: Machines, directory: Path) -> int:
    """Resume the run on two nodes, stop it after another checkpoint, and return the last step that it took."""
    outputs = cluster.shared / "runs" / program.name / "outputs"
    before = checkpoints(program, outputs)

    def has_saved(handle: Handle) -> bool:
        return state(handle).phase in OVER or checkpoints(program, outputs) - before != set()

    handle = begun(program, inputs, cluster, directory, NEVER, "saves again", has_saved)
    run, log = Path(handle["directory"]), Path(handle["directory"]) / "logs" / "slurm.log"
    said = "\n".join(logs(handle, follow=False))
    assert re.search(program.resumed, said), said[-3000:] + tail(run / "logs")
    stop(handle)
    wait_for(f"{program.name} ends", lambda: is_over(run), 240)
    wait_for("Slurm says so", lambda: state(handle).phase in OVER)
    assert state(handle).phase is Phase.STOPPED, log.read_text()[-3000:]
    attempt = max((run / "attempts").glob("[0-9]*"), key=lambda each: int(each.name))
    records = [json.loads(file.read_text()) for file in sorted(attempt.glob("node-*.json"))]
    assert [(each["node_rank"], each["outcome"]) for each in records] == [(0, "stopped"), (1, "stopped")]
    assert "killed" not in str(records), f"both nodes ended within their grace: {records}"
    wait_for("all processes are gone", lambda: not ranks_of(program, run))
    return last_step(run)


def finished_on_slurm(program: Program, inputs: dict[str, str], cluster: Machines, directory: Path, last: int) -> None:
    """Resume the run, and let it take its last step."""
    handle = begun(program, inputs, cluster, directory, last, "is done", lambda each: is_over(Path(each["directory"])))
    wait_for("Slurm says so", lambda: state(handle).phase in OVER)
    said = "\n".join(logs(handle, follow=False))
    assert state(handle).phase is Phase.SUCCEEDED, said[-3000:] + tail(Path(handle["directory"]) / "logs")
    assert re.search(program.resumed, said), said[-3000:]
    assert last_step(Path(handle["directory"])) == last


def begun(
    program: Program,
    inputs: dict[str, str],
    cluster: Machines,
    directory: Path,
    steps: int,
    what: str,
    is_so: Callable[[Handle], bool],
) -> Handle:
    """Launch the program, wait until `is_so` returns True, and return the handle.

    If Ray did not start, launch the program again, up to twice.
    """
    for _ in range(3):
        handle = launch(program, inputs, cluster, directory, steps)
        wait_for(f"{program.name} {what}", partial(is_so, handle), WAIT)
        if DID_NOT_BEGIN not in (failure(Path(handle["directory"])) or ""):
            break
        wait_for("Slurm says so", partial(lambda ended: state(ended).phase in OVER, handle))
    return handle


def launch(program: Program, inputs: dict[str, str], cluster: Machines, directory: Path, steps: int) -> Handle:
    """Submit the program on two nodes with one rank each. Its code is on the shared file system."""
    job = write_job(directory, program, inputs, nodes=2, steps=steps)
    packages.share(program.name, cluster.shared)
    lock = LockedPackages(packages.lock(program.name).read_text())
    loaded, there = replace(load_program(job), lock=lock), on_slurm(make_hand_off(), mount=str(cluster.shared))
    code = shutil.copytree(job.parent, cluster.shared / "code" / program.name, dirs_exist_ok=True)
    request = Request(loaded, program.name, there, IMAGE, allocate(loaded, there, CATALOGUE), str(code))
    (cluster.shared / "runs" / program.name / "outcome").unlink(missing_ok=True)
    return submit(request, CATALOGUE, ENVIRONMENT)


def is_over(run: Path) -> bool:
    """Return whether the script of a run has ended. To ask Slurm each time would cost more than the run."""
    return (run / "outcome").exists()


def trainway(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trainway.cli", *arguments]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def checkpoints(program: Program, outputs: Path) -> set[tuple[str, float]]:
    """Return the complete checkpoints of a run, with the time at which each was written."""
    return {(str(each), each.stat().st_mtime) for each in outputs.glob(program.checkpoint)}


def last_step(run: Path) -> int:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return int(events[-1]["step"])


def ranks_of(program: Program, run: Path) -> list[int]:
    """Return the processes of a run's ranks, which are processes of this machine on every target."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words, told = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        of_run = f"TRAINWAY_RUN={run}\0".encode() in told
        if of_run and program.rank.encode() in words and (program.variable.encode() + b"=") in told:
            found.append(int(entry.name))
    return found


def tail(logs: Path) -> str:
    files = sorted(logs.rglob("*.log")) if logs.is_dir() else []
    return "".join(file.read_text(errors="replace")[-1000:] for file in files)
