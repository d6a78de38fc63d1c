"""Pipeline parallelism: stages of layers on different ranks, and a schedule of micro-batches through them."""

import math
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, assert_never

import torch
import torch.distributed as dist
from torch import Tensor, nn

from training.config import Layout, PipelineSchedule
from training.model.decoder import Decoder
from training.model.experts import MixtureOfExperts

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle


def split(model: Decoder, ranks: int, rank: int, stages_per_rank: int) -> list[Decoder]:
    """Return the stages of a rank, in order. `model` keeps only their layers, under the old names.

    Stage s is on rank s modulo `ranks`.
    """
    ends = stage_ends(model.shape.layers, ranks * stages_per_rank)
    numbers = list(model.layers)
    stages = []
    for index in range(rank, len(ends), ranks):
        first, last = index == 0, index == len(ends) - 1
        stage = Decoder.__new__(Decoder)
        nn.Module.__init__(stage)
        stage.shape, stage.loss_chunks, stage.compiled_loss = model.shape, model.loss_chunks, model.compiled_loss
        stage.embed_tokens = model.embed_tokens if first else None
        stage.layers = nn.ModuleDict(
            {n: model.layers[n] for n in numbers[ends[index - 1] if index else 0 : ends[index]]}
        )
        stage.norm = model.norm if last else None
        stage.lm_head = model.lm_head if last else None
        stages.append(stage)
    model.layers = nn.ModuleDict({number: layer for stage in stages for number, layer in stage.layers.items()})
    if stages[0].embed_tokens is None:
        model.embed_tokens = None
    if stages[-1].norm is None:
        model.norm = model.lm_head = None
    return stages


def stage_ends(layers: int, stages: int) -> list[int]:
    """Return the layer before which each stage ends. Remaining layers go to the stages between embedding and output.

    The first and the last stage also compute the embedding and the output. Llama 3 removes a layer from both (arXiv
    2407.21783, section 3.3.2).
    """
    counts = [layers // stages] * stages
    for stage in [*range(1, stages - 1), 0, stages - 1][: layers % stages]:
        counts[stage] += 1
    return list(accumulate(counts))


class Pipeline:
    """Run micro-batches through the stages of all ranks. An evaluation runs only the forward pass."""

    def __init__(
        self,
        stages: list[Decoder],
        schedule: PipelineSchedule,
        layout: Layout,
        group: dist.ProcessGroup,
        rotary: Tensor,
    ) -> None:
        self.ranks = layout.pp
        self._scale: Tensor | float = 1.0
        self._first, self._last = dist.get_rank(group) == 0, dist.get_rank(group) == layout.pp - 1
        for stage in stages:
            # The schedule would divide an argument of its own by micro-batches.
            stage.register_forward_pre_hook(
                lambda _, inputs, named: (inputs, named | {"rotary": rotary}), with_kwargs=True
            )

        self._passes = layout.accumulation_steps
        self._forget_trials = [_uncounted_trial(stage) for stage in stages]

        def loss(output: Tensor, target: Tensor) -> Tensor:
            # The last stage computes the loss itself. Here it is scaled to its part of the step's mean.
            del target
            return output * (self._scale / self._passes)

        self._schedule = _schedule(schedule, stages, layout.pp, group, rotary.device, self._passes, loss)
        # As many micro-batches as divide an evaluation evenly, and at most as many as a step has, which fit into
        # memory.
        self.evaluated_at_once = math.gcd(layout.evaluation_passes, self._passes)
        self._evaluation = None
        if layout.evaluation_passes:
            # Evaluation has a schedule of its own, because one that alternates between training and evaluation would
            # set up its stages anew each time. Zero-bubble only orders backward passes, so evaluation uses interleaved.
            order: PipelineSchedule = "interleaved" if schedule == "zero-bubble" else schedule
            self._evaluation = _schedule(
                order, stages, layout.pp, group, rotary.device, self.evaluated_at_once, lambda output, _: output
            )

    def step(
        self, tokens: Tensor, targets: Tensor, documents: Tensor | None = None, scale: Tensor | float = 1.0
    ) -> Tensor:
        """Compute the gradients of all samples of a step. Return their mean loss on the last rank, and 0 elsewhere.

        tokens, targets: [samples, sequence]. documents: [samples, documents], if attention stays inside them (see
        `training.model.attention.attend`). The gradients are multiplied by `scale`.
        """
        losses: list[Tensor] = []
        self._scale = scale
        inputs, named = self._arguments(tokens, targets, documents)
        self._schedule.step(*inputs, losses=losses, return_outputs=False, **named)
        while self._forget_trials:
            self._forget_trials.pop()(self._passes)
        return torch.stack(losses).sum().detach() / scale if losses else torch.zeros((), device=tokens.device)

    @torch.no_grad()
    def evaluate(self, tokens: Tensor, targets: Tensor, documents: Tensor | None = None) -> Tensor:
        """Return the mean loss of `evaluated_at_once` micro-batches on the last rank, and 0 elsewhere.

        Keep no gradients.
        """
        assert self._evaluation is not None  # the layout has evaluation_passes
        losses: list[Tensor] = []
        inputs, named = self._arguments(tokens, targets, documents)
        self._evaluation.eval(*inputs, losses=losses, return_outputs=False, **named)
        return torch.stack(losses).mean() if losses else torch.zeros((), device=tokens.device)

    def _arguments(
        self, tokens: Tensor, targets: Tensor, documents: Tensor | None
    ) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
        """Return what this rank's stages need of a batch, as positional and named arguments."""
        named: dict[str, Any] = {"target": targets, "targets": targets} if self._last else {"target": None}
        if documents is not None:
            named["documents"] = documents
        return (tokens,) if self._first else (), named


def _uncounted_trial(stage: Decoder) -> Callable[[int], None]:
    """Note the tokens that experts count in a trial run of a stage, and return a function that removes them.

    A schedule tries a stage on made-up input before its first step. Call the returned function after the first step
    with its number of passes.
    """
    mixtures = [module for module in stage.modules() if isinstance(module, MixtureOfExperts)]
    of_the_first_pass: list[Tensor] = []
    passes = 0

    def note(*_: Any) -> None:
        nonlocal passes
        passes += torch.is_grad_enabled()
        if passes == 2 and not of_the_first_pass:
            of_the_first_pass.extend(mixture.chosen.clone() for mixture in mixtures)

    hook = stage.register_forward_pre_hook(note)

    def forget(real_passes: int) -> None:
        hook.remove()
        if passes > real_passes:
            for mixture, counts in zip(mixtures, of_the_first_pass, strict=True):
                mixture.chosen -= counts

    return forget


def _schedule(
    name: PipelineSchedule,
    stages: list[Decoder],
    ranks: int,
    group: dist.ProcessGroup,
    device: torch.device,
    micro_batches: int,
    loss: Callable[[Tensor, Tensor], Tensor],
) -> "PipelineScheduleSingle | PipelineScheduleMulti":
    # Imported here: no other layout needs these modules.
    from torch.distributed.pipelining import (
        PipelineStage,
        Schedule1F1B,
        ScheduleInterleaved1F1B,
        ScheduleInterleavedZeroBubble,
    )

    rank, count = dist.get_rank(group), ranks * len(stages)
    pipeline_stages = [
        PipelineStage(stage, rank + ranks * number, count, device, group=group) for number, stage in enumerate(stages)
    ]
    match name:
        case "1f1b":
            return Schedule1F1B(pipeline_stages[0], micro_batches, loss, scale_grads=False)
        case "interleaved":
            return ScheduleInterleaved1F1B(list(pipeline_stages), micro_batches, loss, scale_grads=False)
        case "zero-bubble":
            return ScheduleInterleavedZeroBubble(list(pipeline_stages), micro_batches, loss, scale_grads=False)
        case other:
            assert_never(other)
