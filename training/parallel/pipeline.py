"""Pipeline parallelism: stages of layers on different ranks, and a schedule of micro-batches through them."""

from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle

from training.config import Layout
from training.model import Decoder


def split(model: Decoder, ranks: int, rank: int, stages_per_rank: int) -> list[Decoder]:
    """The stages of a rank, in order; `model` is left with what they hold, under its old names.

    Stage s is on rank s modulo `ranks`.
    """
    ends = stage_ends(model.shape.layers, ranks * stages_per_rank)
    numbers = list(model.layers)
    stages = []
    for index in range(rank, len(ends), ranks):
        first, last = index == 0, index == len(ends) - 1
        stage = Decoder.__new__(Decoder)
        nn.Module.__init__(stage)
        stage.shape, stage.loss_chunks = model.shape, model.loss_chunks
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
    """The layer that each stage ends before. What is left over goes to the stages between embedding and output.

    The first and the last stage have those to compute besides; Llama 3 takes a layer off both (arXiv 2407.21783,
    section 3.3.2).
    """
    counts = [layers // stages] * stages
    for stage in [*range(1, stages - 1), 0, stages - 1][: layers % stages]:
        counts[stage] += 1
    return list(accumulate(counts))


class Pipeline:
    """Runs the micro-batches of a step, forward and backward, through the stages of all ranks."""

    def __init__(
        self,
        stages: list[Decoder],
        schedule: str,
        layout: Layout,
        group: dist.ProcessGroup,
        rotary: Tensor,
    ) -> None:
        rank, device, micro_batches = dist.get_rank(group), rotary.device, layout.accumulation_steps
        count = layout.pp * len(stages)
        for stage in stages:
            # The schedule would divide an argument of its own by micro-batches.
            stage.register_forward_pre_hook(
                lambda _, inputs, named: (inputs, named | {"rotary": rotary}), with_kwargs=True
            )
        pipeline_stages = [
            PipelineStage(stage, rank + layout.pp * number, count, device, group=group)
            for number, stage in enumerate(stages)
        ]
        self._scale = 1.0
        self._first, self._last = rank == 0, rank == layout.pp - 1

        def loss(output: Tensor, target: Tensor) -> Tensor:
            # The last stage computes the loss itself; here it becomes its part of the step's mean.
            del target
            return output * (self._scale / micro_batches)

        self._schedule: PipelineScheduleSingle | PipelineScheduleMulti
        if schedule == "1f1b":
            self._schedule = Schedule1F1B(pipeline_stages[0], micro_batches, loss, scale_grads=False)
        else:
            kind = ScheduleInterleaved1F1B if schedule == "interleaved" else ScheduleInterleavedZeroBubble
            self._schedule = kind(list(pipeline_stages), micro_batches, loss, scale_grads=False)

    def step(self, tokens: Tensor, targets: Tensor, documents: Tensor | None = None, scale: float = 1.0) -> Tensor:
        """Leaves the gradients of all samples of a step. Returns their mean loss on the last rank, elsewhere 0.

        tokens, targets, documents: [samples, sequence]; documents, where they are masked (see `attention_mask`).
        The gradients are multiplied by `scale`.
        """
        losses: list[Tensor] = []
        self._scale = scale
        inputs = (tokens,) if self._first else ()
        named: dict[str, Any] = {"targets": targets} if self._last else {}
        if documents is not None:
            named["documents"] = documents
        self._schedule.step(
            *inputs, target=targets if self._last else None, losses=losses, return_outputs=False, **named
        )
        return torch.stack(losses).sum().detach() / scale if losses else torch.zeros((), device=tokens.device)
