"""Started by torchrun: for every layout named on the command line, what an evaluation between two steps gives.

Prints, as one JSON object, how far the loss of held-out samples is from that of one process, relative to it; by how
many tokens the experts of a rank have counted more than the steps had; and whether the step after the evaluation left
the very gradients that the one before it left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.training.built_model import built_model
from tests.training.each_layout import measure_each
from tests.training.layout_gradients import (
    END_OF_TEXT,
    LENGTH,
    SAMPLES,
    VOCABULARY,
    batch,
    gradient,
    job_of,
    masked,
    small,
)
from training.data.batches import Tokens
from training.evaluation import evaluate
from training.model.decoder import Decoder, initialize, rotary_cache
from training.model.experts import MixtureOfExperts
from training.model.loss import cross_entropy

HELD_OUT = 24


class Noise:
    """Samples to evaluate on."""

    tokens_of_a_sample = LENGTH + 1
    dtype: np.dtype[np.uint16 | np.uint32] = np.dtype(np.uint16)
    tokens = torch.randint(0, VOCABULARY, (HELD_OUT, LENGTH + 1), generator=torch.Generator().manual_seed(11))

    def locate(self, counters: NDArray[np.int64]) -> NDArray[np.int64]:
        return counters[:, None]

    def gather(self, places: NDArray[np.int64], into: Tokens, rows: NDArray[np.int64]) -> None:
        into[rows] = self.tokens.numpy()[places[:, 0]]

    def close(self) -> None:
        pass


def difference(changes: dict[str, Any]) -> dict[str, Any]:
    job = job_of(changes | {"evaluation": {"shards": 1, "samples": HELD_OUT}})
    shape = small(job)
    world, local = built_model(job, VOCABULARY, END_OF_TEXT, shape)
    model, pipeline = local.model, local.pipeline
    own = local.batch(batch().chunk(world.layout.dp)[world.data_rank])
    assert pipeline

    def step() -> list[torch.Tensor]:
        pipeline.step(*own)
        gradients = [gradient(parameter) for parameter in model.parameters()]
        model.zero_grad()
        return gradients

    before = step()
    tokens_counted = own.inputs.numel() * shape.experts_per_token
    mixtures = [module for module in model.modules() if isinstance(module, MixtureOfExperts)]
    miscounted = [mixture.chosen.sum().item() - tokens_counted for mixture in mixtures]
    found = [evaluate(local, world, Noise(), HELD_OUT, job.batch.micro) for _ in range(2)]
    after = step()
    miscounted += [mixture.chosen.sum().item() - 2 * tokens_counted for mixture in mixtures]

    everything = Noise.tokens
    alone = masked(Decoder(shape, VOCABULARY), everything[:, :-1], documents=job.data.mask_documents)
    initialize(alone, job.seed)
    logits = alone(everything[:, :-1], rotary_cache(shape, LENGTH))
    expected = cross_entropy(logits, everything[:, 1:]).item()
    assert HELD_OUT // SAMPLES > 1, "more than the micro-batches of one step"
    return {
        "loss": max(abs(loss / expected - 1) for loss in found),
        "miscounted": max(map(abs, miscounted), default=0.0),
        "untouched": all(torch.equal(one, other) for one, other in zip(before, after, strict=True)),
    }


if __name__ == "__main__":
    measure_each(difference)
