"""Between micro-batches, a rank holds its shard of the gradients, unless the job asks for whole ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training.test_layouts import differences
from tests.training.torchrun_server import TorchrunServer

UNSHARDED = {"memory": {"gradient_accumulation": "unsharded"}}
HSDP = {"parallel": {"dp_shard": 2, "dp_replicate": 2}}
SHARES: dict[str, tuple[dict[str, Any], float]] = {
    "FSDP": ({}, 1 / 4),
    "HSDP": (HSDP, 1 / 2),
    "FSDP, unsharded": (UNSHARDED, 1),
    "HSDP, unsharded": (HSDP | UNSHARDED, 1),
}


@pytest.fixture(scope="module")
def shares(torchrun: TorchrunServer) -> dict[str, Any]:
    return differences(torchrun, 4, {name: job for name, (job, _) in SHARES.items()}, "gradient_memory.py")


@pytest.mark.parametrize("layout", SHARES)
def test_a_rank_holds_its_share_of_the_gradients_between_micro_batches(layout: str, shares: dict[str, Any]) -> None:
    assert shares[layout]["held"] == pytest.approx(SHARES[layout][1], rel=0.05)
