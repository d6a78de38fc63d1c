"""On real Slurm: the job of this machine ends there with the same loss, although a node dies meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.command_line import run_trainway
from tests.launch.conftest import write_job
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.lifecycle_scripts.slurm_cluster import wait_for
from training.data.corpus import python_standard_library
from training.prepare import prepare
from trainway.launch.slurm import SlurmOptions, logs, shell, state, stop, submit
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.handoff import HandOff

ROOT = Path(__file__).parents[3]
WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

DATA = {"train": "fsx:/corpus/small", "sequence_length": 64}
SHORT_JOB: dict[str, Any] = {"steps": 6, "data": DATA}
# Ten seconds of steps, so that a node can be lost between the first checkpoint and the end.
JOB: dict[str, Any] = {"steps": 30, "data": DATA}
ENVIRONMENT = SlurmOptions(environment=PurePosixPath(sys.prefix))
ENOUGH_SECONDS = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2", "n3", "n4"]) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        write_corpus(running)
        yield running


@pytest.fixture(scope="module")
def local_end(cluster: Machines, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How the job ends on this machine, on as many ranks."""
    return end_here(JOB, cluster, tmp_path_factory.mktemp("local"))


def write_corpus(cluster: Machines) -> None:
    """Write the token shards of the jobs to the file system of the cluster."""
    prepare(python_standard_library(limit_bytes=400_000), str(cluster.shared / "corpus" / "small"), vocabulary=512)


def end_here(job: dict[str, Any], cluster: Machines, directory: Path) -> dict[str, Any]:
    """Train the job on this machine with the number of ranks that it has on the cluster. Return its last event."""
    data = {**job["data"], "train": str(cluster.shared / "corpus" / "small")}
    changes = {**job, "data": data, "checkpoint": {"every": 5, "location": str(directory / "checkpoints")}}
    ran = run_trainway("launch", str(write_job(directory, **changes)), f"--run={directory / 'run'}", directory=ROOT)
    assert ran.returncode == 0, ran.stderr
    return last_event(directory / "run")


def launch(
    name: str, cluster: Machines, hand_off: HandOff, directory: Path, *, job: dict[str, Any] | None = None
) -> Handle:
    """Submit `job`, or else JOB, on two nodes, with checkpoints of its own."""
    checkpoint = {"every": 5, "location": f"fsx:/checkpoints/{name}"}
    there = on_slurm(hand_off, mount=str(cluster.shared))
    asked = request(directory, there, run=name, nodes=2, checkpoint=checkpoint, **(job or JOB))
    return submit(asked, CATALOGUE, ENVIRONMENT)


def events(run: Path) -> list[dict[str, Any]]:
    metrics = run / "metrics.jsonl"
    return [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []


def last_event(run: Path) -> dict[str, Any]:
    return events(run)[-1]


def starts(run: Path) -> int:
    """How often the run has begun."""
    return sum(event["event"] == "start" for event in events(run))


def saves(run: Path) -> int:
    """How many checkpoints are complete."""
    return sum(event["event"] == "checkpoint" for event in events(run))


def ends(handle: Handle) -> Phase:
    """The phase in which the run ends."""
    over = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)
    wait_for("the run ends", lambda: state(handle).phase in over, ENOUGH_SECONDS)
    return state(handle).phase


def log(handle: Handle) -> str:
    return (Path(handle["directory"]) / "logs" / "slurm.log").read_text()[-4000:]


def test_the_same_job_ends_with_the_same_loss_here_and_under_slurm(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    here = end_here(SHORT_JOB, cluster, tmp_path / "here")
    handle = launch("untouched", cluster, hand_off, tmp_path, job=SHORT_JOB)
    assert ends(handle) is Phase.SUCCEEDED, log(handle)
    there = last_event(Path(handle["directory"]))
    assert here["event"] == there["event"] == "end" and here["step"] == there["step"] == 6
    assert here["loss_hex"] == there["loss_hex"]


# tests/launch/slurm/test_ranks.py stops runs without training.
@pytest.mark.exhaustive
def test_a_run_that_is_stopped_saves_itself_and_is_not_queued_again(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    # On a busy machine, a job of some steps would end before it is stopped.
    steps = 100_000
    handle = launch("stopped", cluster, hand_off, tmp_path, job=JOB | {"steps": steps})
    run, said, there = Path(handle["directory"]), [], ""
    for line in logs(handle, follow=True):
        said.append(line)
        if "step=3/" in line:
            assert state(handle).nodes == ("n1", "n2")
            typed = subprocess.run(shell(handle, 1), input="hostname\n", capture_output=True, text=True, timeout=300)
            there = typed.stdout
            stop(handle)
    assert "n2" in there.split()
    assert state(handle).phase is Phase.STOPPED, log(handle)
    saved = [event["step"] for event in events(run) if event["event"] == "checkpoint"]
    assert saved and saved[-1] == last_event(run)["step"] < steps
    assert any(line.startswith(f"[n1 0] step=1/{steps} ") for line in said)
    assert not [line for line in said if "default0" in line]
    time.sleep(1)
    assert not cluster.ask("squeue", "--noheader")


# The last test: it leaves two nodes.
def saved_since_its_start(run: Path) -> bool:
    """Return whether the newest start has written a checkpoint."""
    kinds = [event["event"] for event in events(run)]
    return "checkpoint" in kinds[len(kinds) - kinds[::-1].index("start") :]


@pytest.mark.exhaustive
def test_a_run_that_loses_node_after_node_ends_with_the_same_loss_and_no_one_touched_it(
    cluster: Machines, local_end: dict[str, Any], hand_off: HandOff, tmp_path: Path
) -> None:
    handle = launch("survivor", cluster, hand_off, tmp_path)
    run = Path(handle["directory"])
    wait_for("a checkpoint is written", lambda: saves(run) == 1, ENOUGH_SECONDS)
    # One that only takes part, then the one that the batch script and the rendezvous are on.
    lost = [state(handle).nodes[-1]]
    cluster.cut_power(lost[0])
    wait_for(
        "the next start has saved as well", lambda: starts(run) == 2 and saved_since_its_start(run), ENOUGH_SECONDS
    )
    lost.append(state(handle).nodes[0])
    cluster.cut_power(lost[1])
    assert ends(handle) is Phase.SUCCEEDED, log(handle)

    resumed = [event["resumed_from"] for event in events(run) if event["event"] == "start"]
    assert resumed[0] is None and 5 <= resumed[1] < resumed[2]
    nodes = [{path.name for path in run.glob(f"logs/start-{number}/*")} for number in range(3)]
    assert [len(each) for each in nodes] == [2, 2, 2]
    assert lost[0] in nodes[0] - nodes[1] and lost[1] in nodes[1] - nodes[2]
    end = last_event(run)
    assert (end["step"], end["loss_hex"]) == (local_end["step"], local_end["loss_hex"])
