"""The gradient of one optimizer step, micro-batch by micro-batch."""

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from training.model.decoder import Decoder
from training.observe.laps import Laps


def accumulate(
    model: Decoder,
    inputs: Tensor,
    targets: Tensor,
    documents: Tensor | None,
    rotary: Tensor,
    micro: int,
    laps: Laps,
    scale: float = 1.0,
) -> Tensor:
    """Leaves the gradients of this rank's samples, `micro` at a time, and returns their mean loss.

    inputs, targets, documents: [samples, sequence], samples a multiple of `micro`; documents, where they are masked
    (see `attention_mask`). The gradients are multiplied by `scale`.
    """
    passes = len(inputs) // micro
    loss = torch.zeros((), device=inputs.device)
    micro_documents = [None] * passes if documents is None else torch.split(documents, micro)
    micro_batches = zip(torch.split(inputs, micro), torch.split(targets, micro), micro_documents, strict=True)
    for pass_, (micro_inputs, micro_targets, its_documents) in enumerate(micro_batches, start=1):
        if isinstance(model, FSDPModule):
            # Gradients are added up on their rank; only the last pass sends them.
            model.set_requires_gradient_sync(pass_ == passes)
        micro_loss = model(micro_inputs, rotary, micro_targets, its_documents) / passes
        loss += micro_loss.detach()
        laps.lap("forward")
        (micro_loss * scale).backward()
        laps.lap("backward")
    return loss
