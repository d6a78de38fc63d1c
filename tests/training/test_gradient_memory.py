"""Between micro-batches, a rank holds its shard of the gradients, unless the job asks for whole ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training.test_layouts import UNTIED, differences
from tests.training.torchrun_server import TorchrunServer
from training.config.presets import PRESETS

UNSHARDED = {"memory": {"gradient_accumulation": "unsharded"}}
HSDP = {"parallel": {"dp_shard": 2, "dp_replicate": 2}}
SHARES: dict[str, tuple[dict[str, Any], float]] = {
    "FSDP": ({}, 1 / 4),
    "HSDP": (HSDP, 1 / 2),
    "FSDP, unsharded": (UNSHARDED, 1),
    "HSDP, unsharded": (HSDP | UNSHARDED, 1),
    "FSDP, untied": (UNTIED, 1 / 4),
    "FSDP, untied, loss in chunks": (UNTIED | {"memory": {"loss_chunks": 4}}, 1 / 4),
}
LAYERS = PRESETS["tiny"].layers


@pytest.fixture(scope="module")
def shares(torchrun: TorchrunServer) -> dict[str, Any]:
    return differences(torchrun, 4, {name: job for name, (job, _) in SHARES.items()}, "gradient_memory.py")


@pytest.mark.parametrize("layout", SHARES)
def test_a_rank_holds_its_share_of_the_gradients_between_micro_batches(layout: str, shares: dict[str, Any]) -> None:
    assert shares[layout]["held"] == pytest.approx(SHARES[layout][1], rel=0.05)


@pytest.mark.parametrize("layout", ["FSDP, untied", "FSDP, untied, loss in chunks"])
def test_embedding_norm_and_output_are_gathered_and_reduced_alone_and_once(layout: str, shares: dict[str, Any]) -> None:
    assert shares[layout]["reductions"] == LAYERS + 3
    # The backward pass gathers the layers again. It still has the norm and the output, and needs no embedding.
    assert shares[layout]["gathers"] == 2 * LAYERS + 3


def test_a_tied_embedding_is_reduced_once(shares: dict[str, Any]) -> None:
    assert shares["FSDP"]["reductions"] == LAYERS + 1
    assert shares["FSDP"]["gathers"] == 2 * LAYERS + 1
