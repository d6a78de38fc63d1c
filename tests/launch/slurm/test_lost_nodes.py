"""Cut the power of nodes of a real Slurm cluster. Runs continue on spare nodes, or on fewer nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.launch.slurm.machines import Machines, machines
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.launch.slurm.test_run import (
    ENVIRONMENT,
    WHY_NOT,
    end_here,
    events,
    last_event,
    log,
    saves,
    starts,
    write_corpus,
)
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.slurm import SlurmOptions, state, submit
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.handoff import HandOff

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
JOB: dict[str, Any] = {
    "steps": 40,
    "data": {"train": "fsx:/corpus/small", "sequence_length": 64},
    "hang_detection": {"least_seconds": 3, "other_seconds": 60},
}
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)
ENOUGH_SECONDS = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines([f"n{number}" for number in range(1, 7)]) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(running.commands), prepend=":")
        write_corpus(running)
        yield running


@pytest.fixture(scope="module")
def loss(cluster: Machines, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the last loss of the job on this machine with two ranks, in the format of `float.hex`."""
    end: str = end_here(JOB, cluster, tmp_path_factory.mktemp("local"))["loss_hex"]
    return end


def launch(name: str, cluster: Machines, hand_off: HandOff, directory: Path, options: SlurmOptions) -> Handle:
    """Submit the job on two nodes, and wait until it has saved a checkpoint."""
    there = on_slurm(hand_off, mount=str(cluster.shared))
    checkpoint = {"every": 5, "location": f"fsx:/checkpoints/{name}"}
    asked = request(directory, there, run=name, nodes=2, checkpoint=checkpoint, **JOB)
    handle = submit(asked, CATALOGUE, options)
    run = Path(handle["directory"])
    wait_for("a checkpoint is written", lambda: saves(run) > 0 or state(handle).phase in OVER, ENOUGH_SECONDS)
    assert state(handle).phase is Phase.RUNNING, log(handle)
    return handle


def members(run: Path) -> set[str]:
    """Return the nodes on which torchrun has started ranks."""
    return {path.parts[-3] for path in run.glob("logs/start-0/*/*/attempt_*")}


def finished(handle: Handle) -> Path:
    """Wait until the run has succeeded without a requeue of its job, and return the run's directory."""
    wait_for("the run ends", lambda: state(handle).phase in OVER, ENOUGH_SECONDS)
    assert state(handle).phase is Phase.SUCCEEDED, log(handle)
    run = Path(handle["directory"])
    assert [path.name for path in run.glob("logs/start-*")] == ["start-0"], "Slurm has not requeued the job"
    return run


@pytest.mark.exhaustive
def test_a_spare_node_waits_until_the_end(cluster: Machines, loss: str, hand_off: HandOff, tmp_path: Path) -> None:
    handle = launch("untouched", cluster, hand_off, tmp_path, replace(ENVIRONMENT, spare_nodes=1))
    assert len(state(handle).nodes) == 3
    run = finished(handle)
    assert len(members(run)) == 2 and starts(run) == 1
    assert last_event(run)["loss_hex"] == loss


@pytest.mark.exhaustive
def test_a_spare_node_takes_the_place_of_a_lost_one(
    cluster: Machines, loss: str, hand_off: HandOff, tmp_path: Path
) -> None:
    handle = launch("spare", cluster, hand_off, tmp_path, replace(ENVIRONMENT, spare_nodes=1))
    run, nodes = Path(handle["directory"]), set(state(handle).nodes)
    # The batch script and the rendezvous are on the first node.
    first, *_ = state(handle).nodes
    lost = max(members(run) - {first})
    cluster.cut_power(lost)
    finished(handle)
    assert members(run) == nodes
    assert [event["world_size"] for event in events(run) if event["event"] == "start"] == [2, 2]
    assert last_event(run)["loss_hex"] == loss


@pytest.mark.exhaustive
def test_a_run_continues_on_fewer_nodes(cluster: Machines, loss: str, hand_off: HandOff, tmp_path: Path) -> None:
    handle = launch("fewer", cluster, hand_off, tmp_path, replace(ENVIRONMENT, min_nodes=1))
    cluster.cut_power(state(handle).nodes[-1])
    run = finished(handle)
    assert [event["world_size"] for event in events(run) if event["event"] == "start"] == [2, 1]
    assert float.fromhex(last_event(run)["loss_hex"]) == pytest.approx(float.fromhex(loss), rel=1e-6)


# This test comes last, because only two nodes remain after it.
@pytest.mark.exhaustive
def test_a_run_with_too_few_nodes_is_requeued(cluster: Machines, hand_off: HandOff, tmp_path: Path) -> None:
    handle = launch("too-few", cluster, hand_off, tmp_path, replace(ENVIRONMENT, spare_nodes=1))
    for node in state(handle).nodes[1:]:
        cluster.cut_power(node)
    wait_for("Slurm has requeued the job", lambda: state(handle).phase is Phase.QUEUED, ENOUGH_SECONDS)
    said = (Path(handle["directory"]) / "logs" / "slurm.log").read_text()
    assert "the job is requeued, because only 1 of at least 2 nodes remain" in said
