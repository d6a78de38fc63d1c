"""Hosts are lost, and links are cut, at random moments. The run ends with the same loss as without the fault."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.hosts import Host, hosts, missing
from tests.faults.moments import wait_for_event, wait_for_moment
from tests.faults.test_processes import assert_exact
from tests.training.conftest import Launch, Run

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
# A step of the tests' job takes a twentieth of a second, and its start a second. The first steps count as the start.
HANG_DETECTION = {"least_seconds": 3, "other_seconds": 10}
STEP_OF_PACE = 4
# Three and four ranks have equal shares of twelve samples. A sum in another order differs in its last bit, and a high
# learning rate multiplies the difference with each step.
OF_TWELVE = {
    "batch": {"global": 12, "micro": 1},
    "steps": 100,
    "optimizer": {"learning_rate": 0.0002},
}


def losses(run: Run) -> list[float]:
    """Return the loss of each step, as the last attempt that took the step reported it."""
    by_step = {event["step"]: event["loss"] for event in run.events("step")}
    return [by_step[step] for step in sorted(by_step)]


def finish(network: list[Host]) -> Run:
    for host in network:
        host.finish()
    return network[0].run


def lose_and_replace(network: list[Host], number: int) -> Run:
    network[number].lose()
    network[number].boot()
    return finish(network)


@pytest.mark.exhaustive
def test_a_lost_host_is_replaced(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    with hosts(launch, job | {"hang_detection": HANG_DETECTION}, tmp_path) as network:
        wait_for_moment(network[0].run, drawn, 1, 11)
        assert_exact(lose_and_replace(network, 1), untouched, starts=2)


@pytest.mark.exhaustive
def test_a_lost_host_of_the_rendezvous_is_replaced(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    with hosts(launch, job | {"hang_detection": HANG_DETECTION}, tmp_path) as network:
        wait_for_moment(network[0].run, drawn, STEP_OF_PACE, 11)
        assert_exact(lose_and_replace(network, 0), untouched, starts=2)


@pytest.mark.exhaustive
def test_a_lost_host_that_is_not_replaced(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    """The budget of a step is an hour, but the remaining rank notices the missing heartbeats of the lost rank."""
    document = job | {"hang_detection": HANG_DETECTION | {"least_seconds": 3600}}
    with hosts(launch, document, tmp_path, nodes="1:2") as network:
        wait_for_moment(network[0].run, drawn, STEP_OF_PACE, 11)
        network[1].lose()
        network[0].finish()
        run = network[0].run
    assert [event["world_size"] for event in run.events("start")] == [2, 1]
    (end,) = run.events("end")
    assert float.fromhex(end["loss_hex"]) == pytest.approx(float.fromhex(untouched), rel=1e-6)


@pytest.mark.exhaustive
def test_a_lost_host_with_a_spare(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    """The lost host never returns, so the run can continue only on the spare host.

    The lost host has rank 0, and with it the lease of the checkpoints. No rank waits for its heartbeat.
    """
    document = job | {"hang_detection": HANG_DETECTION}
    with hosts(launch, document, tmp_path, nodes="2:2", count=3, first_has_rank_0=False) as network:
        wait_for_moment(network[0].run, drawn, STEP_OF_PACE, 11)
        # torchrun can make any host the spare host, which runs no ranks. The first host has the last address.
        lost = next(host for host in reversed(network) if host.run.workers())
        lost.lose()
        outputs = [host.finish() for host in network if host is not lost]
        run = network[0].run
    assert [event["world_size"] for event in run.events("start")] == [2, 2]
    assert_exact(run, untouched, starts=2)
    assert not any("waiting for a heartbeat" in output for output in outputs)


@pytest.mark.exhaustive
def test_four_hosts_become_three_and_four_again(
    launch: Launch, job: dict[str, Any], drawn: random.Random, tmp_path: Path
) -> None:
    """The data order and the global batch stay the same, whichever number of ranks divides them.

    On one or two of the remaining hosts, torchrun notices the new host only after the ranks have stopped.
    """
    of_twelve = job | OF_TWELVE | {"hang_detection": HANG_DETECTION}
    alone = launch(of_twelve | {"checkpoint": {"location": str(tmp_path / "alone")}}, 1, name="alone")
    alone.finish()
    # A slow host stops its ranks up to two seconds after the other hosts, and on a busy machine later. With a shorter
    # last call, torchrun starts the ranks on the three hosts that have joined, and the number of starts differs.
    with hosts(launch, of_twelve, tmp_path, nodes="3:4", count=4, slow=(2, 3), last_call_seconds=15) as network:
        wait_for_moment(network[0].run, drawn, STEP_OF_PACE, 8)
        # Any host but that of the rendezvous.
        lost = drawn.choice(network[1:])
        lost.lose()
        wait_for_event(network[0].run, "start", count=2)
        wait_for_moment(network[0].run, drawn, 10, 12)
        lost.boot()
        run = finish(network)
    assert [event["world_size"] for event in run.events("start")] == [4, 3, 4]
    events = [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text().splitlines()]
    grown = max(number for number, event in enumerate(events) if event["event"] == "start")
    last = max(event["step"] for event in events[:grown] if event["event"] == "step")
    assert events[grown]["resumed_from"] == last, "no step is lost to a host that arrives"
    assert losses(run) == pytest.approx(losses(alone), rel=1e-6)


@pytest.mark.exhaustive
def test_a_link_that_is_cut_for_less_than_a_hang(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    with hosts(launch, job, tmp_path) as network:
        wait_for_moment(network[0].run, drawn, 1, 11)
        network[1].cut()
        time.sleep(drawn.uniform(0.5, 2))
        network[1].heal()
        assert_exact(finish(network), untouched, starts=1)


@pytest.mark.exhaustive
def test_a_link_that_is_cut_until_the_run_hangs(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    with hosts(launch, job | {"hang_detection": HANG_DETECTION}, tmp_path) as network:
        wait_for_moment(network[0].run, drawn, 1, 11)
        network[1].cut()
        wait_for_event(network[0].run, "hang")
        time.sleep(drawn.uniform(0, 5))
        network[1].heal()
        assert_exact(finish(network), untouched, starts=2)
