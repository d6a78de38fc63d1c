"""On real Slurm: a run that loses a node starts again by itself, as often as its job file allows, and says why not.

tests/launch/slurm/test_run.py shows that the training job ends with the same loss.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.launch.foreign import write_foreign_job
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.slurm import SlurmOptions, state, submit
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.handoff import HandOff

WHY_NOT = missing()
pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""), pytest.mark.exhaustive]
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)
ENOUGH_SECONDS = 300.0
# Each start of a node writes a file, and waits.
WAITS = ["bash", "-c", "touch $TRAINWAY_OUTPUT/$TRAINWAY_ATTEMPT-$TRAINWAY_NODE_RANK; sleep 3600"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines([f"n{number}" for number in range(1, 6)]) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        yield running


def launch(cluster: Machines, hand_off: HandOff, directory: Path, run: str, restarts: int) -> Handle:
    """Submit the program on two nodes."""
    file = write_foreign_job(directory, nodes=2, outputs="fsx:/outputs", command=WAITS, code=None)
    file.write_text(f"{file.read_text()}life_cycle: {{restarts: {restarts}}}\n")
    program = load_program(file)
    there = on_slurm(hand_off, mount=str(cluster.shared))
    request = Request(program, run, there, IMAGE, allocate(program, there, CATALOGUE))
    return submit(request, CATALOGUE, SlurmOptions(environment=PurePosixPath(sys.prefix)))


def runs(cluster: Machines, run: str, attempt: int) -> None:
    """Wait until the program runs on both nodes, for the attempt of a number."""
    begun = [cluster.shared / "outputs" / run / f"{attempt}-{rank}" for rank in range(2)]
    wait_for(f"attempt {attempt} begins", lambda: all(each.exists() for each in begun), ENOUGH_SECONDS)


def ends(handle: Handle) -> Phase:
    wait_for("the run ends", lambda: state(handle).phase in OVER, ENOUGH_SECONDS)
    return state(handle).phase


def test_a_run_starts_again_once_after_a_lost_node_and_not_after_the_next_one(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    handle = launch(cluster, hand_off, tmp_path, "once", restarts=1)
    run = Path(handle["directory"])
    for attempt in (1, 2):
        runs(cluster, "once", attempt)
        cluster.cut_power(state(handle).nodes[-1])
    assert ends(handle) is Phase.FAILED
    outcome = (run / "outcome").read_text()
    assert "the run is not started again: it was lost or failed in 2 attempts, and life_cycle.restarts is 1" in outcome
    records = [json.loads(file.read_text())["outcome"] for file in sorted(run.glob("attempts/[12]/node-1.json"))]
    assert records == ["running", "running"], "a node that is lost says nothing"
    assert not list((cluster.shared / "outputs/once").glob("3-*"))


# The last test: three nodes are gone after it.
def test_a_run_that_may_not_start_again_ends_with_its_node(
    cluster: Machines, hand_off: HandOff, tmp_path: Path
) -> None:
    handle = launch(cluster, hand_off, tmp_path, "never", restarts=0)
    runs(cluster, "never", 1)
    cluster.cut_power(state(handle).nodes[-1])
    assert ends(handle) in (Phase.FAILED, Phase.GONE)
    assert not list((cluster.shared / "outputs/never").glob("2-*"))
