"""A rank connects with few others among many, and notices when one of them ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.torchrun_server import TorchrunServer

PROGRAM = Path(__file__).with_name("connections.py")


def sockets(torchrun: TorchrunServer, ranks: int) -> int:
    """The sockets of rank 1 after barriers of two groups. Rank 0 has those of the store as well."""
    printed = torchrun.run_program(PROGRAM, "count", ranks=ranks, timeout=1800)
    (line,) = [line for line in printed.splitlines() if line.startswith("sockets ")]
    return int(line.split()[1])


def test_four_times_as_many_ranks_need_four_more_sockets_in_each_group(torchrun: TorchrunServer) -> None:
    # A barrier connects ranks at distances of 1, 2, 4, and so on, to both sides.
    assert sockets(torchrun, 16) - sockets(torchrun, 4) == 2 * 4


@pytest.mark.parametrize("ranks", [2, 8])
def test_all_ranks_notice_that_one_has_ended_before_they_communicated_with_it(
    torchrun: TorchrunServer, ranks: int
) -> None:
    printed = torchrun.run_program(PROGRAM, "lose", ranks=ranks, timeout=1800)
    assert printed.count("noticed") == ranks - 1, printed


def test_a_rank_waits_for_a_port_that_was_taken_since_it_was_chosen(torchrun: TorchrunServer) -> None:
    assert "connected" in torchrun.run_program(PROGRAM.with_name("taken_port.py"), ranks=1, timeout=60)
