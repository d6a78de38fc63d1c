"""A job of many hosts starts, is stopped, and resumes, and its connections do not grow with the number of its ranks."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.training.rehearsal import STEPS, rehearse
from tests.training.torchrun_server import TorchrunServer

# A rank is in three groups of many ranks: all ranks, all ranks for checkpoints, and the replicas of its shard. In each,
# twice as many ranks are two more neighbors. Checkpoints are planned with lists that every rank sends, which adds some.
SOCKETS_OF_A_DOUBLING = 8


@pytest.mark.exhaustive
def test_four_hosts_of_eight_ranks_start_stop_and_resume(tmp_path: Path, torchrun: TorchrunServer) -> None:
    two, eight, many = (rehearse(torchrun, tmp_path, ranks, timeout=300) for ranks in (2, 8, 32))
    for each in (two, eight, many):
        assert 2 <= each.stopped_at < STEPS and each.resumed_from == each.stopped_at
        assert math.isclose(float.fromhex(each.loss), float.fromhex(two.loss), rel_tol=1e-6)
    for few, more in ((eight.stopped, many.stopped), (eight.resumed, many.resumed)):
        assert more.sockets - few.sockets <= 2 * SOCKETS_OF_A_DOUBLING
