"""Started by torchrun: for every layout named on the command line, one step's loss, gradient norm and gradients.

Prints, as one JSON object, how far each is from the same step in one process without any parallelism: the relative
error of loss and norm, and the largest relative error of a parameter's gradient with that parameter's name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.tensor import DTensor

from tests.training.built_model import built_model
from tests.training.each_layout import measure_each, of_all_ranks
from training.config import Job
from training.config.presets import Shape, shape_of
from training.model.decoder import Decoder, initialize, rotary_cache
from training.model.loss import cross_entropy
from training.observe.laps import Laps
from training.parallel.clipping import norm_of_gradients
from training.precision import float8
from training.precision.loss_scale import initial_scale
from training.step import compute_gradients

CPU = torch.device("cpu")
LENGTH, VOCABULARY, SAMPLES = 32, 64, 8
END_OF_TEXT = 3


def job_of(changes: dict[str, Any]) -> Job:
    document = {
        "name": "layout",
        "model": "tiny",
        "data": {"train": "nowhere", "sequence_length": LENGTH},
        "precision": "fp32",
        "batch": {"global": SAMPLES, "micro": 1},
        "steps": 1,
    }
    return Job.model_validate(document | changes)


def small(job: Job) -> Shape:
    """A tiny model made tinier, with what the job changes in it."""
    changed = shape_of("tiny", job.variant)
    # Blocks of float8 have to fit into half of a matrix.
    times = 1 if job.float8.recipe == "none" else 2
    return replace(changed, hidden=32 * times, feed_forward=48 * times)


def batch() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (SAMPLES, LENGTH + 1), generator=torch.Generator().manual_seed(7))


def masked(model: Decoder, tokens: torch.Tensor, *, documents: bool) -> Decoder:
    """Let the model attend by a dense mask of all pairs of tokens, which knows nothing of starts and ends."""
    ends = tokens == END_OF_TEXT
    number = (ends.cumsum(1) - ends.long()) * documents
    before = torch.arange(tokens.shape[1])[:, None] - torch.arange(tokens.shape[1])[None]
    mask = (before >= 0) & (before < (model.shape.sliding_window or LENGTH))
    mask = (mask & (number[:, :, None] == number[:, None, :]))[:, None]

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)

    for layer in model.layers.values():
        layer.self_attn.attend = attend  # type: ignore[union-attr]
    return model


def reference(job: Job) -> tuple[float, dict[str, torch.Tensor]]:
    tokens = batch()
    model = masked(Decoder(small(job), VOCABULARY), tokens[:, :-1], documents=job.data.mask_documents)
    initialize(model, job.seed)
    loss = cross_entropy(model(tokens[:, :-1], rotary_cache(model.shape, LENGTH)), tokens[:, 1:])
    loss.backward()
    return loss.item(), {name: gradient(parameter) for name, parameter in model.named_parameters()}


def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    # Cloned, because what one rank has whole is not copied, and clipping changes it.
    return (parameter.grad.full_tensor() if isinstance(parameter.grad, DTensor) else parameter.grad).clone()


def measured(job: Job) -> tuple[float, float, dict[str, torch.Tensor]]:
    world, local = built_model(job, VOCABULARY, END_OF_TEXT, small(job))
    layout, model = world.layout, local.model
    tokens = batch().chunk(layout.dp)[world.data_rank]
    float8.after_step(model, job.float8)
    scale = initial_scale(job.precision)
    loss = compute_gradients(local, local.batch(tokens), job.batch.micro, Laps(CPU), scale)
    dist.all_reduce(loss)
    gradients = {name: gradient(parameter) / scale for name, parameter in model.named_parameters()}
    norm = norm_of_gradients(model.parameters(), scale).item()
    everyone = {name: found for part in of_all_ranks(gradients) for name, found in part.items()}
    return loss.item() * layout.pp / dist.get_world_size(), norm, everyone


def two_micro_batches(changes: dict[str, Any]) -> dict[str, Any]:
    """Divide the samples of a rank into two micro-batches, but in a pipeline into one for each, to fill its stages."""
    layout = job_of(changes).layout(dist.get_world_size())
    if layout.pp > 1 or "batch" in changes:
        return changes
    return changes | {"batch": {"global": SAMPLES, "micro": max(1, SAMPLES // layout.dp // 2)}}


def differences(changes: dict[str, Any]) -> dict[str, Any]:
    job = job_of(two_micro_batches(changes))
    found_loss, found_norm, found = measured(job)
    if dist.get_rank() != 0:
        torch._dynamo.reset()
        return {}  # rank 0 alone prints
    loss, expected = reference(job)
    norm = torch.stack([gradient.norm() for gradient in expected.values()]).norm().item()
    assert found.keys() == expected.keys()
    errors = {name: ((found[name] - right).norm() / right.norm()).item() for name, right in expected.items()}
    worst = max(errors, key=lambda name: errors[name])
    torch._dynamo.reset()
    return {
        "loss": abs(found_loss / loss - 1),
        "norm": abs(found_norm / norm - 1),
        "gradient": errors[worst],
        "parameter": worst,
    }


if __name__ == "__main__":
    measure_each(differences)
