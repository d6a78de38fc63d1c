"""Bytes of activations that a rank has at the moments of a step: those of layers, of borders of stages, and logits."""

import math

from training.config.saved_activations import Mode, of_undivided_sequence, saved_per_token
from training.config.stage_sizes import StageSizes


def saved(stage: StageSizes, layers: int) -> int:
    """Return the bytes that the first layers of a stage save, of all micro-batches in flight."""
    checkpointed = sum(_is_checkpointed(stage, index) for index in range(layers))
    mode = stage.job.memory.activation_checkpointing
    of_all = checkpointed * _of_layer(stage, mode) + (layers - checkpointed) * _of_layer(stage, "none")
    return math.ceil(of_all * _in_flight(stage))


def of_work(stage: StageSizes, index: int) -> int:
    """Return the bytes that a layer has beside what it saved, while its backward pass is at work.

    A checkpointed layer is computed again, and then has all of its activations.
    """
    if not _is_checkpointed(stage, index):
        return _of_backward(stage)
    again = _of_layer(stage, "none") - _of_layer(stage, stage.job.memory.activation_checkpointing)
    return again + _of_backward(stage)


def _is_checkpointed(stage: StageSizes, index: int) -> bool:
    memory = stage.job.memory
    number = stage.number * stage.layers + index
    return memory.activation_checkpointing != "none" and number % memory.checkpoint_every == 0


def _of_layer(stage: StageSizes, mode: Mode) -> int:
    """Return the bytes that a layer saves for one micro-batch."""
    compiled = stage.job.compile == "inductor"
    each = saved_per_token(stage.shape, stage.half, mode, stage.device, compiled=compiled)
    whole = of_undivided_sequence(stage.shape, stage.half, mode) if stage.layout.tp > 1 else 0
    if stage.layout.tp > 1 and mode == "selective":
        # The residual stream after attention and feed-forward is kept, too, because it comes from other ranks.
        each += 2 * stage.width * stage.shape.hidden
    if stage.layout.cp > 1 and mode != "full":
        each += _of_context(stage)
    return stage.tokens * ((each - whole) // stage.layout.tp + whole)


def _of_context(stage: StageSizes) -> int:
    """Return the bytes per token that context parallelism saves beside those of a rank's own sequence.

    The result of attention exists as its operator returns it, and in the order of the rank's tokens.
    """
    shape, cp = stage.shape, stage.layout.cp
    twice = stage.width * shape.heads * shape.head_width
    if stage.job.parallel.cp_method == "all-to-all":
        return twice
    return twice + 2 * shape.key_value_heads * shape.head_width * stage.width * (cp - 1)


def _of_backward(stage: StageSizes) -> int:
    """Return the bytes of gradients of activations inside a layer, at its product of gate and input."""
    shape, tp = stage.shape, stage.layout.tp
    chosen = shape.experts_per_token if shape.experts else 1
    return stage.width * stage.tokens * (2 * chosen * shape.feed_forward // tp + shape.hidden // tp + shape.hidden)


def _in_flight(stage: StageSizes) -> float:
    """Return for how many micro-batches a stage keeps activations.

    1F1B: arXiv 2104.04473, section 2.2.1. The others are those of PyTorch's schedules, with two parts of a stage. The
    warm-up of interleaved is 2 (pp - stage - 1) + pp parts, and one more is at work. Zero-bubble's is shorter by
    pp - stage - 1, but the gradients of weights wait for as many parts as there are stages before. (`_get_warmup_ops`
    and `_get_1f1b_rank_ops` of torch/distributed/pipelining/schedules.py, 2.13; read 2026-11-23)
    """
    layout, schedule = stage.layout, stage.job.parallel.pp_schedule
    if layout.pp == 1:
        return 1
    if schedule == "1f1b":
        return min(layout.pp - stage.number, layout.accumulation_steps)
    after = layout.pp - stage.number - 1
    parts = layout.pp + 1 + (2 * after if schedule == "interleaved" else layout.pp - 1)
    return min(parts, 2 * layout.accumulation_steps) / 2


def at_borders(stage: StageSizes) -> int:
    """Return the bytes of what the stages of a pipeline send and receive, and of gradients that wait.

    PyTorch allocates what a stage receives for all micro-batches of a step. Schedules of several parts keep what they
    have sent until the end of the step, so half of it is there on average.
    """
    layout, shape, schedule = stage.layout, stage.shape, stage.job.parallel.pp_schedule
    if layout.pp == 1:
        return 0
    hidden = stage.width * stage.tokens * shape.hidden // layout.tp
    neighbors = stage.job.parallel.stages_per_rank * 2 - (stage.number == 0) - stage.is_last
    if schedule == "1f1b":
        return layout.accumulation_steps * neighbors * hidden
    waiting = 0
    if schedule == "zero-bubble":
        queries, keys = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
        results = queries + 2 * keys + 2 * shape.feed_forward + 2 * shape.hidden
        waiting = (stage.number + 1) * stage.layers // 2 * stage.width * stage.tokens * results // layout.tp
    return layout.accumulation_steps * neighbors * hidden * 3 // 2 + waiting


def saved_by_ends(stage: StageSizes) -> int:
    """Return the bytes that the last norm saves for the backward pass, and the loss, which has a gradient beside."""
    shape, tp = stage.shape, stage.layout.tp
    norm = 8 if stage.device == "cpu" else stage.width
    return stage.tokens * (norm * shape.hidden // tp + 2 * stage.width * shape.hidden)


def of_logits(stage: StageSizes) -> int:
    """Return the bytes of one chunk's logits at their widest: in fp32, beside those that the product returned."""
    return (6 if stage.half else 4) * _logits(stage)


def of_gradient_of_logits(stage: StageSizes) -> int:
    """Return the bytes of the gradient by one chunk's logits."""
    return stage.width * _logits(stage)


def _logits(stage: StageSizes) -> int:
    return stage.tokens // stage.job.memory.loss_chunks * stage.vocabulary // stage.layout.tp
