"""The memory that a job needs, as it is computed, is what PyTorch keeps, and the examples fit their GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from training.config import Job, footprint
from training.config.presets import PRESETS, Shape
from training.config.saved_activations import saved_per_token

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from training.model.decoder import Layer

EXAMPLES = sorted((Path(__file__).parents[2] / "examples/jobs").glob("*.yaml"))
TOKENS = 96
SHAPES = {
    "heads that share": replace(PRESETS["tiny"], hidden=128, heads=4, key_value_heads=2, feed_forward=384),
    "heads of their own": replace(PRESETS["tiny"], hidden=96, heads=6, key_value_heads=6, feed_forward=256),
    "narrow attention": replace(PRESETS["tiny"], hidden=128, heads=4, key_value_heads=1, attention_width=64),
}
P5 = {"gpus": 8, "gib": 80}
# CUDA's context and NCCL's buffers.
RESERVED = 4


def saved_by(layer: Layer, shape: Shape, dtype: torch.dtype, documents: Tensor | None = None) -> int:
    """Return the bytes that a layer keeps for its backward pass, without its weights, each tensor's memory once."""
    import torch

    from training.model.decoder import rotary_cache

    kept: dict[int, int] = {}
    weights = {each.untyped_storage().data_ptr() for each in layer.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights | {rotary.untyped_storage().data_ptr()}:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    rotary = rotary_cache(shape, TOKENS)
    hidden = torch.randn(1, TOKENS, shape.hidden, dtype=dtype, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(hidden, rotary, documents)
    assert output.shape == hidden.shape
    return sum(kept.values())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_layer_saves_what_is_computed(shape: Shape, precision: str) -> None:
    import torch

    from training.model.decoder import Layer

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    layer = Layer(shape).to(dtype)
    computed = saved_per_token(shape, dtype is torch.bfloat16, "none", "cpu") * TOKENS
    assert saved_by(layer, shape, dtype) == pytest.approx(computed, rel=0.001)
    documents = torch.tensor([[0, 40]], dtype=torch.int32)
    assert saved_by(layer, shape, dtype, documents) == pytest.approx(computed, rel=0.001)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_fits_on_its_nodes(file: Path) -> None:
    job = Job.model_validate(yaml.safe_load(file.read_text()))
    if job.model == "tiny":
        return
    needed = footprint(job, job.nodes * P5["gpus"]).total / 2**30
    assert needed < P5["gib"] - RESERVED, needed


def job_with(**changes: Any) -> Job:
    job = {
        "name": "x",
        "model": "8b",
        "data": {"train": "fsx:/x", "sequence_length": 8192},
        "batch": {"global": 64, "micro": 1},
        "steps": 10,
        **changes,
    }
    return Job.model_validate(job)


def test_eight_billion_parameters_need_what_was_measured_of_others() -> None:
    """16 bytes per parameter over the ranks, and the published sizes of Llama 3 8B."""
    found = footprint(job_with(), 8)
    parameters = 8.03e9
    assert found.weights == pytest.approx(4 * parameters / 8, rel=0.01)
    assert found.optimizer == 2 * found.weights and found.gradients == found.weights
    whole = footprint(job_with(memory={"gradient_accumulation": "unsharded"}), 8)
    assert whole.gradients == pytest.approx(4 * parameters, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "part", "factor"),
    [
        # The gradient of one chunk is a third of what the loss needs.
        ({"memory": {"loss_chunks": 8}}, "logits", 1 / 24),
        ({"memory": {"activation_checkpointing": "full"}}, "activations", 0.05),
        ({"memory": {"activation_checkpointing": "selective"}}, "activations", 0.33),
        ({"optimizer": {"state": "bf16"}}, "optimizer", 0.5),
        ({"memory": {"offload": True}}, "weights", 0.0),
        # Tensor parallelism does not divide the inputs of products.
        ({"parallel": {"tp": 2}}, "activations", 0.55),
        ({"parallel": {"cp": 2, "cp_method": "all-to-all"}}, "activations", 0.5),
        ({"precision": "fp32"}, "activations", 1.9),
    ],
)
def test_a_key_changes_its_part(changes: dict[str, Any], part: str, factor: float) -> None:
    before, after = footprint(job_with(), 8), footprint(job_with(**changes), 8)
    assert getattr(after, part) == pytest.approx(factor * getattr(before, part), rel=0.1)


def test_the_first_stage_of_a_pipeline_keeps_most() -> None:
    deep = job_with(parallel={"pp": 4, "dp_shard": 2})
    one, two = footprint(deep, 8), footprint(job_with(parallel={"pp": 4, "pp_schedule": "interleaved"}), 8)
    # Four micro-batches of a quarter of the layers are as much as one of all layers.
    assert one.activations == pytest.approx(footprint(job_with(), 8).activations, rel=0.1)
    assert two.activations > one.activations
