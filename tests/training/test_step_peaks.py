"""The peak of a whole step is what is computed before a launch, on every stage of a pipeline, in many layouts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.training.test_layouts import differences
from tests.training.torchrun_server import TorchrunServer
from training.config import Job
from training.config.footprint import footprints

# Half of what a rank needs are the activations of the first, and nearly all the weights' state of the second. The loss
# is the peak of the third.
LONG: dict[str, Any] = {"hidden": 128, "heads": 4, "key_value_heads": 2, "feed_forward": 384}
WIDE: dict[str, Any] = {"hidden": 256, "heads": 4, "key_value_heads": 2, "feed_forward": 768}
LENGTHS = {"long": (LONG, 256, 512), "wide": (WIDE, 32, 2048), "vocabulary": (LONG, 256, 8192)}

BF16, EXPERTS = {"precision": "bf16"}, {"variant": {"experts": 4}}
WINDOW_AND_DOCUMENTS: dict[str, Any] = {
    "variant": {"sliding_window": 100},
    "data": {"train": "nowhere", "sequence_length": 256, "mask_documents": True},
}
MUON = {"optimizer": {"name": "muon"}}
HSDP = {"parallel": {"dp_shard": 2, "dp_replicate": 2}}


def checkpointing(mode: str, **others: Any) -> dict[str, Any]:
    return {"memory": {"activation_checkpointing": mode, **others}}


ONE_RANK: dict[str, dict[str, Any]] = {
    "long: one rank, bf16": BF16,
    "wide: one rank, bf16, full": {**BF16, **checkpointing("full")},
}
TWO_RANKS: dict[str, dict[str, Any]] = {
    "long: FSDP": {},
    "wide: FSDP": {},
    "wide: FSDP, tied": {"variant": {"tied": True}},
    "wide: FSDP, bf16": BF16,
    "vocabulary: FSDP, loss in chunks": {"memory": {"loss_chunks": 8}},
    "vocabulary: FSDP, bf16, tied, loss in chunks": {**BF16, "variant": {"tied": True}, "memory": {"loss_chunks": 8}},
    "vocabulary: TP, loss in chunks": {"parallel": {"tp": 2}, "memory": {"loss_chunks": 8}},
    "vocabulary: TP, bf16, loss in chunks": {**BF16, "parallel": {"tp": 2}, "memory": {"loss_chunks": 8}},
    "vocabulary: CP, loss in chunks": {"parallel": {"cp": 2}, "memory": {"loss_chunks": 8}},
    "wide: FSDP, one micro-batch": {"batch": {"global": 2, "micro": 1}},
    "wide: FSDP, gradients unsharded": {"memory": {"gradient_accumulation": "unsharded"}},
    "wide: FSDP, weights kept": {"memory": {"reshard_after_forward": False}},
    "wide: FSDP, muon": MUON,
    "wide: DDP": {"parallel": {"dp_shard": 1, "dp_replicate": 2}},
    "long: full": checkpointing("full"),
    "long: full, every second layer": checkpointing("full", checkpoint_every=2),
    "long: selective": checkpointing("selective"),
    "long: selective, bf16, loss in chunks": {**BF16, **checkpointing("selective", loss_chunks=8)},
    "long: TP, bf16": {**BF16, "parallel": {"tp": 2}},
    "long: TP, selective": {"parallel": {"tp": 2}, **checkpointing("selective")},
    "long: CP, gather": {"parallel": {"cp": 2}},
    "long: CP, gather, window and documents": {"parallel": {"cp": 2}, **WINDOW_AND_DOCUMENTS},
    "long: selective, bf16, window and documents": {**BF16, **checkpointing("selective"), **WINDOW_AND_DOCUMENTS},
    "long: CP, all-to-all": {"parallel": {"cp": 2, "cp_method": "all-to-all"}},
    "long: PP, 1F1B": {"parallel": {"pp": 2}},
    "wide: PP, 1F1B, loss in chunks": {"parallel": {"pp": 2}, "memory": {"loss_chunks": 8}},
    "long: PP, interleaved": {"parallel": {"pp": 2, "pp_schedule": "interleaved"}},
    "long: PP, zero-bubble": {"parallel": {"pp": 2, "pp_schedule": "zero-bubble"}},
    "long: MoE": EXPERTS,
    "long: MoE with TP": {**EXPERTS, "parallel": {"tp": 2}},
    "wide: MoE with EP": {**EXPERTS, "parallel": {"ep": 2}},
    "wide: MoE with EP, muon": {**EXPERTS, **MUON, "parallel": {"ep": 2}},
}
FOUR_RANKS: dict[str, dict[str, Any]] = {
    "wide: HSDP": HSDP,
    "long: HSDP, bf16, full, loss in chunks": {**BF16, **HSDP, **checkpointing("full", loss_chunks=8)},
    "long: CP x TP": {"parallel": {"cp": 2, "tp": 2}},
    "long: PP x FSDP": {"parallel": {"pp": 2}},
    "long: PP of four": {"parallel": {"pp": 4}},
    "long: EP x FSDP": {**EXPERTS, "parallel": {"ep": 2}},
    "long: EP x TP": {**EXPERTS, "parallel": {"ep": 2, "tp": 2}},
}
RANKS = {1: ONE_RANK, 2: TWO_RANKS, 4: FOUR_RANKS}


def job_of(layout: str, changes: dict[str, Any], ranks: int) -> tuple[dict[str, Any], int]:
    """Return the job of a layout without its name, and the size of its vocabulary."""
    shape, length, vocabulary = LENGTHS[layout.split(":")[0]]
    parallel = changes.get("parallel", {})
    data_ranks = ranks // math.prod(parallel.get(name, 1) for name in ("tp", "cp", "pp"))
    # Two micro-batches, but eight fill a pipeline.
    samples, layers = (8 * data_ranks, 4) if "pp" in parallel else (2 * data_ranks, 3)
    job = {
        "model": "tiny",
        "steps": 2,
        "precision": "fp32",
        "data": {"train": "nowhere", "sequence_length": length},
        "batch": {"global": samples, "micro": 1},
        **changes,
        "variant": {"tied": False, "layers": layers, **shape, **changes.get("variant", {})},
    }
    return job, vocabulary


@pytest.fixture(scope="module")
def peaks(torchrun: TorchrunServer) -> dict[str, list[int]]:
    """Return the bytes of each stage at its peak, by layout."""
    found: dict[str, list[int]] = {}
    for ranks, layouts in RANKS.items():
        jobs: dict[str, Any] = {layout: job_of(layout, changes, ranks) for layout, changes in layouts.items()}
        results = differences(torchrun, ranks, jobs, "step_peaks.py")
        found |= {layout: result["peaks"] for layout, result in results.items()}
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize(("ranks", "layout"), [(ranks, layout) for ranks, each in RANKS.items() for layout in each])
def test_a_step_needs_at_its_peak_what_is_computed(ranks: int, layout: str, peaks: dict[str, list[int]]) -> None:
    changes, vocabulary = job_of(layout, RANKS[ranks][layout], ranks)
    job = Job.model_validate({"name": "peak", **changes})
    computed = [each.total for each in footprints(job, ranks, device="cpu", vocabulary=vocabulary)]
    # Two things are not followed in detail: what waits in zero-bubble, which differs from step to step of the schedule,
    # and the copies of tokens that slices of experts on other ranks exchange, which `tp` does not divide.
    loose = any(each in layout for each in ("zero-bubble", "EP x TP"))
    assert peaks[layout] == pytest.approx(computed, rel=0.1 if loose else 0.06)
