"""A host whose rank hangs twice is left out of the run, or the run says that it cannot continue without the host."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.hosts import Host, hosts, missing
from tests.faults.moments import wait_for_event, wait_for_moment
from tests.faults.test_processes import assert_exact
from tests.training.conftest import Launch, Run

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
HANG_DETECTION = {"hang_detection": {"least_seconds": 3, "other_seconds": 30}}


def hang(host: Host, run: Run, drawn: random.Random, number: int) -> None:
    """Stop the rank of a host in the attempt with this number, and wait until the run says that it hangs."""
    wait_for_event(run, "start", count=number)
    # The budget of a step is short once three steps of an attempt are over.
    first = run.events("start")[-1]["resumed_from"] or 0
    wait_for_moment(run, drawn, first + 4, first + 5)
    (rank,) = host.run.workers()
    os.kill(rank, signal.SIGSTOP)
    wait_for_event(run, "hang", count=number)


@pytest.mark.exhaustive
def test_a_host_that_hangs_twice_is_left_out_while_a_spare_waits(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    """The spare boots in the second attempt. In an earlier one, it could take the place of the host at once."""
    from training.hosts.suspect_nodes import suspect_nodes

    with hosts(launch, job | HANG_DETECTION, tmp_path, nodes="2:2", count=3, elastic=True, later=1) as network:
        first, suspect, spare = network
        hang(suspect, first.run, drawn, 1)
        wait_for_event(first.run, "start", count=2)
        spare.boot()
        hang(suspect, first.run, drawn, 2)
        output = suspect.wait_for_end()
        for host in (first, spare):
            host.finish()
        run = first.run
    assert list(suspect_nodes(run.directory)) == [suspect.name]
    assert_exact(run, untouched, starts=3)
    assert f"suspect: node {suspect.name} is left out of the run, which continues without it" in output
    assert output.count("hang: rank 1 does not answer, at step") == 2


@pytest.mark.exhaustive
def test_a_host_that_hangs_twice_stays_where_no_other_can_take_its_place(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    with hosts(launch, job | HANG_DETECTION, tmp_path, elastic=True) as network:
        for number in (1, 2):
            hang(network[1], network[0].run, drawn, number)
        outputs = [host.finish() for host in network]
        run = network[0].run
    assert_exact(run, untouched, starts=3)
    assert f"suspect: node {network[1].name} is suspect, and the run cannot continue without it" in outputs[1]
    assert "suspect:" not in outputs[0]
