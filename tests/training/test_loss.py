"""In every layout, a step multiplies by the output projection three times for each chunk, and no more."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from tests.representatives import chosen, with_representatives
from tests.training.test_layouts import UNTIED, differences
from tests.training.torchrun_server import TorchrunServer

CHUNKS, SAMPLES = 2, 4
TIED = {"variant": {"tied": True}}
LAYOUTS: dict[str, dict[str, Any]] = {
    "FSDP": {},
    "FSDP, tied": TIED,
    "FSDP, checkpointed": {"activation_checkpointing": "full"},
    "FSDP, gradients unsharded": {"gradient_accumulation": "unsharded"},
    "FSDP in fp16": {"precision": "fp16"},
    "TP": {"parallel": {"tp": 2}},
    "TP in bf16, tied": {"parallel": {"tp": 2}, "precision": "bf16", **TIED},
    "CP": {"parallel": {"cp": 2}},
    "PP, 1F1B": {"parallel": {"pp": 2}},
    "PP, interleaved": {"parallel": {"pp": 2, "pp_schedule": "interleaved"}},
    "PP, zero-bubble": {"parallel": {"pp": 2, "pp_schedule": "zero-bubble"}},
}
if find_spec("torchao"):
    LAYOUTS["TP in float8"] = {"parallel": {"tp": 2}, "precision": "bf16", "float8": {"recipe": "tensorwise"}}


def job_of(changes: dict[str, Any]) -> dict[str, Any]:
    """Return a job without its name. `changes` has sections, or keys of the section `memory`."""
    memory = {key: changes[key] for key in changes if key in ("activation_checkpointing", "gradient_accumulation")}
    # The schedules that are not 1F1B have two stages on each rank.
    layers = 4 if "pp" in changes.get("parallel", {}) else 2
    sizes = {"hidden": 64, "heads": 4, "key_value_heads": 2, "feed_forward": 96, "layers": layers}
    return {
        "model": "tiny",
        "data": {"train": "nowhere", "sequence_length": 32},
        "precision": "fp32",
        "batch": {"global": SAMPLES, "micro": 1},
        "steps": 1,
        **{key: section for key, section in changes.items() if key not in memory},
        "memory": {"loss_chunks": CHUNKS, **memory},
        "variant": {**sizes, **UNTIED["variant"], **changes.get("variant", {})},
    }


@pytest.fixture(scope="module")
def products(torchrun: TorchrunServer, request: pytest.FixtureRequest) -> dict[str, Any]:
    jobs = {layout: job_of(changes) for layout, changes in chosen(request, LAYOUTS, "layout").items()}
    return differences(torchrun, 2, jobs, "head_products.py")


@pytest.mark.parametrize("layout", with_representatives(LAYOUTS, ("FSDP", "TP in bf16, tied", "PP, zero-bubble")))
def test_a_step_computes_the_logits_of_each_chunk_once(layout: str, products: dict[str, Any]) -> None:
    parallel = LAYOUTS[layout].get("parallel", {})
    # Without another kind of parallelism, the two ranks share the samples.
    times = CHUNKS * (SAMPLES if parallel else SAMPLES // 2)
    with_head = {"logits": times, "of_hidden": times, "of_weight": times}
    none = dict.fromkeys(with_head, 0)
    # In a pipeline, only the last rank has the output.
    assert products[layout]["ranks"] == [none if "pp" in parallel else with_head, with_head]
