"""Between micro-batches, a rank holds its shard of the gradients, unless the job asks for whole ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.representatives import chosen, with_representatives
from tests.training.test_layouts import UNTIED, differences
from tests.training.torchrun_server import TorchrunServer

LAYERS = 2
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
IN_CHUNKS = "FSDP, untied, loss in chunks"


@pytest.fixture(scope="module")
def shares(torchrun: TorchrunServer, request: pytest.FixtureRequest) -> dict[str, Any]:
    asked = {name: job for name, (job, _) in chosen(request, SHARES, "layout").items()}
    jobs = {name: job | {"variant": {"layers": LAYERS, **job.get("variant", {})}} for name, job in asked.items()}
    return differences(torchrun, 4, jobs, "gradient_memory.py")


@pytest.mark.parametrize("layout", with_representatives(SHARES, ("FSDP", "HSDP, unsharded", IN_CHUNKS)))
def test_a_rank_holds_its_share_of_the_gradients_between_micro_batches(layout: str, shares: dict[str, Any]) -> None:
    assert shares[layout]["held"] == pytest.approx(SHARES[layout][1], rel=0.05)


@pytest.mark.parametrize("layout", with_representatives(("FSDP, untied", IN_CHUNKS), (IN_CHUNKS,)))
def test_embedding_norm_and_output_are_gathered_and_reduced_alone_and_once(layout: str, shares: dict[str, Any]) -> None:
    assert shares[layout]["reductions"] == LAYERS + 3
    # The backward pass gathers the layers again. It still has the norm and the output, and needs no embedding.
    assert shares[layout]["gathers"] == 2 * LAYERS + 3


@pytest.mark.parametrize("layout", ["FSDP"])
def test_a_tied_embedding_is_reduced_once(layout: str, shares: dict[str, Any]) -> None:
    assert shares[layout]["reductions"] == LAYERS + 1
    assert shares[layout]["gathers"] == 2 * LAYERS + 1
