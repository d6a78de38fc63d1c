"""What a rank of one position of the pipeline computes: numbers of layers, parameters, and tokens."""

import math
from dataclasses import dataclass

from training.config.job import Job
from training.config.layout import Layout
from training.config.presets import Shape
from training.config.saved_activations import TorchDevice


@dataclass(frozen=True)
class StageSizes:
    """What a rank of one position of the pipeline computes.

    `dense`, `experts`, `embedding`, and `output` are numbers of parameters: those of one layer, without its experts,
    its experts, and both ends, of which the rank computes with as many when they are gathered.
    """

    job: Job
    layout: Layout
    shape: Shape
    number: int
    layers: int
    dense: int
    experts: int
    embedding: int
    output: int
    vocabulary: int
    device: TorchDevice

    @property
    def layer(self) -> int:
        return self.dense + self.experts

    @property
    def sharing(self) -> int:
        """Return the number of ranks that share a parameter. An expert is shared by `ep` times fewer ranks."""
        return self.layout.dp_shard * self.layout.cp

    @property
    def half(self) -> bool:
        return self.job.precision != "fp32"

    @property
    def width(self) -> int:
        """Return the bytes of a number that products take."""
        return 2 if self.half else 4

    @property
    def tokens(self) -> int:
        """Return the tokens of a micro-batch on this rank, before they are divided over `tp`."""
        return self.job.batch.micro * self.job.data.sequence_length // self.layout.cp

    @property
    def is_last(self) -> bool:
        return self.number == self.layout.pp - 1

    @property
    def wrapped(self) -> bool:
        """Return whether FSDP has the weights. It does not on a single rank."""
        return self.layout.pp * self.layout.dp * self.layout.cp * self.layout.tp > 1 or self.job.memory.offload

    @property
    def accumulates_whole(self) -> bool:
        """Return whether the gradients of several micro-batches are added before they are reduced."""
        sharded = self.job.memory.gradient_accumulation == "sharded" and self.layout.pp == 1
        return self.layout.accumulation_steps > 1 and not sharded

    def shard(self, layers: int, *ends: int) -> int:
        """Return how many of the parameters of so many layers, and of some ends, are on this rank."""
        return math.ceil((layers * (self.dense + self.experts * self.layout.ep) + sum(ends)) / self.sharing)


def stage_sizes(
    job: Job, layout: Layout, shape: Shape, number: int, device: TorchDevice, vocabulary: int
) -> StageSizes:
    """Return the sizes of the stage `number` of a job's pipeline, which is 0 without one."""
    matrix = vocabulary * shape.hidden // layout.tp
    return StageSizes(
        job=job,
        layout=layout,
        shape=shape,
        number=number,
        layers=math.ceil(shape.layers / layout.pp),
        dense=_attention_and_norms(shape, layout) + (0 if shape.experts else _feed_forward(shape, layout)),
        experts=_feed_forward(shape, layout) if shape.experts else 0,
        embedding=matrix if number == 0 else 0,
        output=matrix if number == layout.pp - 1 and not (shape.tied and layout.pp == 1) else 0,
        vocabulary=vocabulary,
        device=device,
    )


def _attention_and_norms(shape: Shape, layout: Layout) -> int:
    """Return the parameters of a layer without its feed-forward, and with its router, that a rank has gathered."""
    heads, keys = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    return shape.hidden * (2 * heads + 2 * keys) // layout.tp + shape.hidden * (shape.experts + 2)


def _feed_forward(shape: Shape, layout: Layout) -> int:
    """Return the parameters of a layer's feed-forward, or of its experts, that a rank has gathered."""
    return 3 * shape.hidden * shape.feed_forward * (shape.experts or 1) // layout.tp // layout.ep
