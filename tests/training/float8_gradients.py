"""Started by torchrun: for every layout named on the command line, one step's gradients with products in float8.

All else is fp32, so that float8 is the only thing that rounds. Prints, as one JSON object, how far the loss and every
parameter's gradient are from those of one process that multiplies in the same float8, and the gradients from fp32's.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.training.each_layout import measure_each
from tests.training.layout_gradients import (
    LENGTH,
    VOCABULARY,
    batch,
    gradient,
    job_of,
    measured,
    reference,
    small,
)
from training.config import Job
from training.model.decoder import Decoder, initialize, rotary_cache
from training.model.loss import cross_entropy
from training.precision import float8


def in_one_process(job: Job) -> tuple[float, dict[str, torch.Tensor]]:
    """The step in float8 without any parallelism, sample by sample: a scale is of a micro-batch."""
    model, tokens = Decoder(small(job), VOCABULARY), batch()
    initialize(model, job.seed)
    float8.apply(model, job.float8, torch.device("cpu"))
    total = 0.0
    for sample in tokens.split(job.batch.micro):
        logits = model(sample[:, :-1], rotary_cache(model.shape, LENGTH))
        loss = cross_entropy(logits, sample[:, 1:]) * len(sample) / len(tokens)
        loss.backward()
        total += loss.item()
    return total, {name: gradient(parameter) for name, parameter in model.named_parameters()}


def errors(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> list[float]:
    """The relative error of every parameter's gradient, the smallest first."""
    assert found.keys() == expected.keys()
    return sorted(((found[name] - right).norm() / right.norm()).item() for name, right in expected.items())


def differences(changes: dict[str, Any]) -> dict[str, Any]:
    job = job_of(changes | {"precision": "bf16"}).model_copy(update={"precision": "fp32"})
    loss, expected = in_one_process(job)
    _, without_float8 = reference(job)
    found_loss, _, found = measured(job)
    same, rounded = errors(found, expected), errors(found, without_float8)
    torch._dynamo.reset()
    return {
        "loss": abs(found_loss / loss - 1),
        "same": same[-1],
        "same in the middle": same[len(same) // 2],
        "rounded": rounded[-1],
        "rounded in the middle": rounded[len(rounded) // 2],
    }


if __name__ == "__main__":
    measure_each(differences)
