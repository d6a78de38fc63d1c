"""Device memory that a rank of a job needs at the peak of a step, computed without torch.

A step has several moments that can be the peak: the loss, the backward pass of each layer, the gradient of the
embedding, and the update of the weights. The footprint is that of the highest. Sizes are in bytes. On processors, a
test measures the peaks of whole steps in many layouts. Those of GPUs were not measured on a card.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from training.config.job import Job
from training.config.optimizer import Optimizer
from training.config.presets import shape_of
from training.config.saved_activations import TorchDevice
from training.config.stage_activations import (
    at_borders,
    of_gradient_of_logits,
    of_logits,
    of_work,
    saved,
    saved_by_ends,
)
from training.config.stage_sizes import StageSizes, stage_sizes

VOCABULARY = 128_256
"""Number of tokens of Llama 3's tokenizer (arXiv 2407.21783, section 3.2), where the job's own is not known."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of a rank on its device at one moment of a step."""

    weights: int
    gradients: int
    optimizer: int
    gathered: int = 0
    """Whole weights that the rank computes with, their gradients, and the buffers in which these are reduced."""
    activations: int = 0
    logits: int = 0

    @property
    def total(self) -> int:
        """Return the sum of all parts."""
        return sum(getattr(self, field.name) for field in fields(self))


def footprint(job: Job, ranks: int, *, device: TorchDevice = "cuda", vocabulary: int = VOCABULARY) -> Footprint:
    """Return what the rank needs that needs most.

    Raises:
        ValueError: the layout does not divide that number of ranks.
    """
    return max(footprints(job, ranks, device=device, vocabulary=vocabulary), key=lambda each: each.total)


def footprints(job: Job, ranks: int, *, device: TorchDevice = "cuda", vocabulary: int = VOCABULARY) -> list[Footprint]:
    """Return what a rank of each position of the pipeline needs. Raises ValueError as `footprint` does."""
    layout, shape = job.layout(ranks), shape_of(job.model, job.variant)
    return [_of_stage(stage_sizes(job, layout, shape, each, device, vocabulary)) for each in range(layout.pp)]


def _of_stage(stage: StageSizes) -> Footprint:
    return max(_moments(stage), key=lambda each: each.total)


def _moments(stage: StageSizes) -> Iterator[Footprint]:
    """Yield the moments of a rank's last micro-batch that can be its peak, and the update of the weights."""
    layers, layer, embedding, output = stage.layers, stage.layer, stage.embedding, stage.output
    tied = embedding if stage.shape.tied and stage.layout.pp == 1 else 0
    kept = 0 if stage.job.memory.offload else 1
    everything = stage.shard(layers, embedding, output)
    at_rest = Footprint(weights=kept * 4 * everything, gradients=0, optimizer=kept * _moments_of_weights(stage))
    if stage.is_last:
        at_loss = replace(
            at_rest,
            gradients=kept * _gradients(stage, 0),
            gathered=_weights(stage, layers, 1, tied + output),
            activations=saved(stage, layers) + at_borders(stage) + saved_by_ends(stage),
        )
        yield from _moments_of_loss(stage, at_loss, tied + output)
    for done in range(layers):
        # Layers are counted from the last, where the backward pass begins.
        before = output if done == 0 else layer
        yield replace(
            at_rest,
            gradients=kept * _gradients(stage, stage.shard(done - 1, output) if done else 0),
            gathered=_weights(stage, layers - done, 2, tied)
            + _reduction(stage, layer, before)
            + stage.width * tied * stage.wrapped,
            activations=saved(stage, layers - done) + at_borders(stage) + of_work(stage, layers - done - 1),
        )
    if embedding:
        uses = 2 if tied else 1
        yield replace(
            at_rest,
            gradients=kept * _gradients(stage, stage.shard(layers, output)),
            gathered=_weights(stage, 0, 0, tied) + _reduction(stage, uses * embedding, max(embedding, layer)),
            activations=at_borders(stage),
        )
    yield replace(at_rest, gradients=kept * 4 * everything, gathered=kept * _of_update(stage))


def _moments_of_loss(stage: StageSizes, before: Footprint, weight: int) -> Iterator[Footprint]:
    """Yield the moments of a loss whose forward pass computes the gradients, chunk by chunk.

    `weight` is the number of parameters of the output.
    """
    # The gradient of the weight is a sum over chunks, in fp32. In fp16 it is fp32 without chunks, too.
    sums = stage.job.memory.loss_chunks > 1 or stage.job.precision == "fp16"
    total = _weights_in_loss(stage, before.gathered) + (4 * weight if sums else 0)
    yield replace(before, gathered=total, logits=of_logits(stage))
    yield replace(before, gathered=total + stage.width * weight, logits=of_gradient_of_logits(stage))
    # The backward pass multiplies the gradients by that of the loss.
    yield replace(before, gathered=before.gathered + 2 * stage.width * weight)


def _moments_of_weights(stage: StageSizes) -> int:
    """Return the bytes of the optimizer's state."""
    optimizer = stage.job.optimizer
    each = optimizer.state_bytes
    # AdamW updates the embedding and the output.
    ends = 8 if optimizer.name == "muon" else each
    return each * stage.shard(stage.layers) + ends * stage.shard(0, stage.embedding, stage.output)


def _gradients(stage: StageSizes, reduced: int) -> int:
    """Return the bytes of gradients when so many parameters of the rank have been reduced in the last micro-batch."""
    if stage.accumulates_whole:
        return 4 * (stage.layers * stage.layer + stage.embedding + stage.output)
    waits = stage.layout.accumulation_steps > 1
    return 4 * (stage.shard(stage.layers, stage.embedding, stage.output) if waits else reduced)


def _weights(stage: StageSizes, remaining: int, used: int, ends: int) -> int:
    """Return the bytes of gathered or cast weights: of the layers at work, and of some ends.

    `remaining` is the number of layers whose backward pass has not ended. FSDP gathers the next of them while it
    computes the current one.
    """
    if not stage.wrapped:
        # Each module casts its own weights, and a layer that is not computed again keeps them.
        casts = remaining if stage.job.memory.activation_checkpointing == "none" else min(used, 1, remaining)
        return stage.width * (casts * stage.layer + stage.embedding + stage.output) if stage.half else 0
    if stage.layout.pp > 1:
        return stage.width * (stage.layers * stage.layer + stage.embedding + stage.output)
    # A rank that holds all weights of a group has copies of them until their backward pass.
    keeps = not stage.job.memory.reshard_after_forward
    dense = remaining if keeps or stage.sharing == 1 else min(used, remaining)
    experts = remaining if keeps or stage.sharing == stage.layout.ep else min(used, remaining)
    embedding = stage.embedding if (keeps or stage.sharing == 1) and remaining and not stage.shape.tied else 0
    return stage.width * (dense * stage.dense + experts * stage.experts + ends + embedding)


def _weights_in_loss(stage: StageSizes, before_backward: int) -> int:
    """Return the bytes of gathered or cast weights in the forward pass of the loss.

    `before_backward` is the number of these bytes at the beginning of the backward pass, with one more layer. Until
    then, FSDP keeps the buffer of the last gather: that of the output, or of a layer if the embedding is tied. (PyTorch
    2.13, `wait_for_unshard` of torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, and `_post_forward` of
    _fsdp_state.py; read 2026-11-26)
    """
    if not stage.wrapped or stage.layout.pp > 1 or stage.sharing == 1 or stage.shape.tied:
        return before_backward
    return _weights(stage, stage.layers, 0, stage.output) + stage.width * stage.output


def _reduction(stage: StageSizes, group: int, before: int) -> int:
    """Return the bytes of the gradients of a group, and of the fp32 buffer that reduces those of the group before."""
    if not stage.wrapped or (stage.accumulates_whole and not stage.half):
        # Each gradient is added to the one of earlier micro-batches as soon as it is there.
        largest = min(group, max(stage.embedding, stage.output, stage.layer // 3))
        buffer = 6 * largest if stage.half else 4 * largest
    else:
        buffer = stage.width * group
    # A pipeline reduces after all passes.
    return buffer + (4 * before if stage.wrapped and stage.layout.pp == 1 else 0)


def _of_update(stage: StageSizes) -> int:
    """Return the bytes of the optimizer's temporary results for the parameter that has most."""
    match stage.job.optimizer:
        case Optimizer(name="muon"):
            attention = stage.shape.heads * stage.shape.head_width
            widths = (attention,) if stage.shape.experts else (attention, stage.shape.feed_forward)
            matrix = stage.shape.hidden * max(widths)
            # A rank updates its share of a stack of experts at once.
            experts = math.ceil(stage.experts / 3 * stage.layout.ep / stage.sharing)
            # Whole matrices: before and after in fp32, and three of the iteration in bf16. Parts of matrices in bf16:
            # those that other ranks get, the whole, and four of the iteration.
            divided = stage.sharing > 1 or stage.layout.tp > 1
            return max((12 if divided else 14) * matrix, (12 if stage.layout.tp > 1 else 14) * experts)
        case Optimizer(name="adamw", state="fp32"):
            return 0
        case _:
            # Both moments in fp32, and two numbers in 32 bits to round each.
            return 16 * max(stage.shard(0, stage.embedding, stage.output), stage.shard(1) // 3)
