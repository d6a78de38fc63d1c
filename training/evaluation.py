"""The loss on held-out samples, the same ones each time."""

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from training.data.batches import Readable, document_numbers, read
from training.model.decoder import Decoder
from training.parallel.pipeline import Pipeline


@torch.no_grad()
def evaluate(
    model: Decoder,
    held_out: Readable,
    samples: int,
    micro: int,
    data_rank: int,
    data_ranks: int,
    positions: Tensor,
    rotary: Tensor,
    end_of_text: int | None,
    pipeline: Pipeline | None = None,
) -> float:
    """Mean loss, in nats a token, of the first `samples` held-out samples. Called by every rank; the same on each.

    `samples` is a multiple of `micro` x `data_ranks`. `positions` are those of the rank's part of the sequence;
    `end_of_text` is the token that ends a document where documents are masked; `pipeline`, what `model` is part of.
    """
    share = samples // data_ranks
    at_once = micro * (pipeline.evaluated_at_once if pipeline else 1)
    loss = torch.zeros((), device=rotary.device)
    for first in range(data_rank * share, (data_rank + 1) * share, at_once):
        tokens = torch.from_numpy(read(held_out, np.arange(first, first + at_once))).to(rotary.device)
        inputs, targets = tokens[:, :-1][:, positions], tokens[:, 1:][:, positions]
        documents = None if end_of_text is None else document_numbers(tokens[:, :-1], end_of_text)
        if pipeline:
            loss += pipeline.evaluate(inputs, targets, documents)
        else:
            loss += model(inputs, rotary, targets, documents)
    # Ranks that share a sample have the mean of their part of it, and the parts are equal; of a pipeline, one has it.
    loss *= at_once / share
    dist.all_reduce(loss)
    for module in model.modules():
        # What a backward pass would have freed.
        if isinstance(module, FSDPModule):
            module.reshard()
    return loss.item() * (pipeline.ranks if pipeline else 1) / dist.get_world_size()
