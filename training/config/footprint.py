"""Device memory that a rank of a job needs at the peak of a step, computed without torch.

The peak is at the start of a backward pass: all activations are there, and the gradients of earlier micro-batches.
Sizes are in bytes. Those of a token are what PyTorch saves for the backward pass of `training/model/decoder.py`. On
processors, a test measures them with hooks on saved tensors. On GPUs the norms differ, which CUDA computes in one
kernel. Those sizes were not measured on a card.
"""

import math
from dataclasses import dataclass, fields
from typing import Literal

from training.config.job import Job
from training.config.layout import Layout
from training.config.presets import Shape, shape_of

TorchDevice = Literal["cpu", "cuda"]

VOCABULARY = 128_256
"""Number of tokens of Llama 3's tokenizer (arXiv 2407.21783, section 3.2), where the job's own is not known."""
_MOMENTS = {"adamw": 8, "adamw-8bit": 2, "muon": 4}
"""Bytes per parameter. Muon keeps one momentum of matrices, and 8-bit AdamW keeps norms and small matrices in fp32."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of a rank on its device."""

    weights: int
    gradients: int
    optimizer: int
    gathered: int
    """Whole layers that the rank computes with, and the buffers in which their gradients are reduced."""
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """Return the sum of all parts."""
        return sum(getattr(self, field.name) for field in fields(self))


def footprint(job: Job, ranks: int, *, device: TorchDevice = "cuda", vocabulary: int = VOCABULARY) -> Footprint:
    """Return what the rank needs that needs most.

    Raises:
        ValueError: the layout does not divide that number of ranks.
    """
    layout, shape = job.layout(ranks), shape_of(job.model, job.variant)
    stages = [_of_stage(job, layout, shape, stage, device, vocabulary) for stage in range(layout.pp)]
    return max(stages, key=lambda each: each.total)


def _of_stage(job: Job, layout: Layout, shape: Shape, stage: int, device: TorchDevice, vocabulary: int) -> Footprint:
    """Return the footprint of the ranks of one position of the pipeline."""
    first, last = stage == 0, stage == layout.pp - 1
    layers = math.ceil(shape.layers / layout.pp)
    layer = _parameters_of_layer(shape, layout)
    ends = vocabulary * shape.hidden // layout.tp * (first + last if not shape.tied or layout.pp > 1 else 1)
    parameters, sharing = layers * layer + ends, layout.dp_shard * layout.cp
    shard = 4 * math.ceil(parameters / sharing)
    waits = layout.accumulation_steps > 1 or layout.pp > 1
    sharded = job.memory.gradient_accumulation == "sharded" and layout.pp == 1
    gradients = shard if sharded or not waits else 4 * parameters
    moments = 4 if job.optimizer.state == "bf16" else _MOMENTS[job.optimizer.name]
    kept = 0 if job.memory.offload else 1
    return Footprint(
        weights=kept * shard,
        gradients=kept * gradients,
        optimizer=kept * moments * shard // 4,
        gathered=_gathered(job, layout, parameters, layer, ends),
        activations=_activations(job, layout, shape, layers, stage, device),
        logits=_logits(job, layout, shape, vocabulary) if last else 0,
    )


def _parameters_of_layer(shape: Shape, layout: Layout) -> int:
    """Return the parameters of a layer that a rank and those that share its weights have."""
    heads, keys = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    attention = shape.hidden * (2 * heads + 2 * keys)
    feed_forward = 3 * shape.hidden * shape.feed_forward * (shape.experts or 1)
    return attention // layout.tp + feed_forward // layout.tp // layout.ep + 2 * shape.hidden


def _gathered(job: Job, layout: Layout, parameters: int, layer: int, ends: int) -> int:
    """Return the bytes of whole layers, and of the buffers for their gradients.

    FSDP gathers the next layer while it computes the current one. The embedding, the last norm, and the output are one
    group, which stays. A group's gradients exist in the compute type, and in fp32 as the input of the reduction.
    """
    if layout.dp_shard * layout.cp == 1 and not job.memory.offload:
        return 0 if job.precision == "fp32" else 2 * layer
    width = 4 if job.precision == "fp32" else 2
    keeps = layout.pp > 1 or not job.memory.reshard_after_forward
    weights = parameters if keeps else ends + 2 * layer
    return width * weights + (width + 4) * max(ends, layer)


def _activations(job: Job, layout: Layout, shape: Shape, layers: int, stage: int, device: TorchDevice) -> int:
    """Return the bytes that the layers of a stage save for the backward pass, of all micro-batches in flight."""
    tokens = job.batch.micro * job.data.sequence_length // layout.cp
    mode, every = job.memory.activation_checkpointing, job.memory.checkpoint_every
    all_saved = saved_per_token(shape, job.precision != "fp32", "none", device, compiled=job.compile == "inductor")
    kept = saved_per_token(shape, job.precision != "fp32", mode, device)
    checkpointed = 0 if mode == "none" else math.ceil(layers / every)
    per_token = checkpointed * kept + (layers - checkpointed) * all_saved
    # The pass computes one layer again, which then has all of its activations.
    again = all_saved if checkpointed else 0
    gathered_keys = 0
    if layout.cp > 1 and job.parallel.cp_method == "gather":
        width = 4 if job.precision == "fp32" else 2
        keys = 2 * shape.key_value_heads * shape.head_width * width
        gathered_keys = keys * (layout.cp - 1) * tokens * (layers - checkpointed + bool(checkpointed))
    in_flight = _in_flight(job, layout, stage)
    return math.ceil((tokens * (per_token * in_flight + again) + gathered_keys * in_flight) / layout.tp)


def _in_flight(job: Job, layout: Layout, stage: int) -> float:
    """Return for how many micro-batches a stage keeps activations.

    1F1B: arXiv 2104.04473, section 2.2.1. Interleaved, with two parts of a stage: Megatron-LM's warm-up of
    2 (pp - stage - 1) + pp parts, and one more (megatron/core/pipeline_parallel/schedules.py; read 2026-11-23).
    """
    if layout.pp == 1:
        return 1
    if job.parallel.pp_schedule == "1f1b":
        return min(layout.pp - stage, layout.accumulation_steps)
    parts = 2 * (layout.pp - stage - 1) + layout.pp + 1
    return min(parts, 2 * layout.accumulation_steps) / 2


def saved_per_token(
    shape: Shape,
    half: bool,
    mode: Literal["none", "full", "selective"],
    device: TorchDevice = "cuda",
    *,
    compiled: bool = False,
) -> int:
    """Return the bytes that one layer saves for a token. `half`: products are in 16 bits."""
    hidden, queries, keys = shape.hidden, shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    forward = shape.feed_forward * (shape.experts_per_token if shape.experts else 1)
    # The logarithm of each head's sum, in fp32.
    heads = 4 * shape.heads
    if mode == "full":
        return 2 * hidden if half else 4 * hidden
    if mode == "selective":
        width = 1 if half else 2
        return width * (4 * hidden + 4 * queries + 2 * keys + 2 * forward) + heads
    if half and device == "cuda":
        if compiled:
            return 4 * hidden + 4 * queries + 4 * keys + 4 * forward + heads
        return 8 * hidden + 4 * queries + 4 * keys + 8 * forward + heads + 8
    if half:
        return 20 * hidden + 4 * queries + 4 * keys + 8 * forward + heads + 8
    norms = 8 if device == "cuda" else 16
    return (8 + norms) * hidden + 8 * queries + 8 * keys + 16 * forward + heads + 8


def _logits(job: Job, layout: Layout, shape: Shape, vocabulary: int) -> int:
    """Return the bytes of the logits of one chunk, with their copy in fp32 and the gradients of both."""
    tokens = job.batch.micro * job.data.sequence_length // layout.cp
    half = job.precision != "fp32"
    each = (10 if half else 8) * vocabulary // layout.tp
    return tokens // job.memory.loss_chunks * each + tokens * (10 if half else 12) * shape.hidden // layout.tp
