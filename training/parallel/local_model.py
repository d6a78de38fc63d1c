"""The part of the model that one rank computes, on its part of every sample."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from training.config import Job
from training.data.documents import document_starts
from training.model.decoder import Decoder, materialize, rotary_cache
from training.parallel.apply import local_positions, parallelize
from training.parallel.pipeline import Pipeline
from training.parallel.world import World


class TokenBatch(NamedTuple):
    """Tokens of some samples as one rank sees them, on its device, each [samples, sequence / cp].

    `documents` are the positions at which the documents of whole samples begin, [samples, documents], if attention
    stays inside them, otherwise it is None (see `document_starts`).
    """

    inputs: Tensor
    targets: Tensor
    documents: Tensor | None


@dataclass(frozen=True)
class LocalModel:
    """The part of the model that a rank has.

    `positions`: int64 [sequence / cp], the positions of a sample that this rank computes. `rotary`: the rotary cache at
    these positions. `pipeline`: the schedule of the pipeline that `model` is a part of, or None. `end_of_text`: the
    token that ends a document if attention stays inside documents, otherwise None. `shards_gradients`: whether
    gradients are reduced and scattered after every micro-batch. A pipeline ignores it.
    """

    model: Decoder
    positions: Tensor
    rotary: Tensor
    pipeline: Pipeline | None
    end_of_text: int | None
    shards_gradients: bool

    def batch(self, tokens: Tensor) -> TokenBatch:
        """Return this rank's part of samples: integers [samples, sequence + 1], in host memory."""
        device = self.rotary.device
        documents = None if self.end_of_text is None else document_starts(tokens[:, :-1], self.end_of_text)
        if documents is not None:
            documents = (documents.pin_memory() if device.type == "cuda" else documents).to(device, non_blocking=True)
        tokens = tokens.to(device, non_blocking=True).long()
        return TokenBatch(tokens[:, :-1][:, self.positions], tokens[:, 1:][:, self.positions], documents)


def local_model(model: Decoder, job: Job, world: World, end_of_text: int) -> LocalModel:
    """Return this rank's part of a model on the meta device, moved to the rank's device without initial weights.

    `end_of_text` is the token that ends a document. `model` becomes the part that this rank holds.
    """
    stages = parallelize(model, job, world)
    materialize(model, world.device, job.memory.offload)
    positions = local_positions(job, world)
    rotary = rotary_cache(model.shape, job.data.sequence_length, world.device)[:, positions]
    pipeline = None
    if world.layout.pp > 1:
        pipeline = Pipeline(stages, job.parallel.pp_schedule, world.layout, world.mesh.get_group("pp"), rotary)
    separator = end_of_text if job.data.mask_documents else None
    sharded = job.memory.gradient_accumulation == "sharded"
    return LocalModel(model, positions, rotary, pipeline, separator, sharded)
