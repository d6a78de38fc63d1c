"""The rules by which a layout fits a model, without torch.

The job raises the first problem before it builds the model (training/parallel/limits.py). A list of possible layouts
leaves out those with a problem (layout_choices.py).
"""

from collections.abc import Iterator

from training.config.job import Job
from training.config.layout import Layout
from training.config.presets import Shape


def layout_problems(shape: Shape, vocabulary: int, job: Job, layout: Layout) -> Iterator[str]:
    """Yield why the model cannot be divided as the layout requires: the wrong number, the reason, and the remedy.

    Only the first problem is certain. A later one can follow from it.
    """
    length = job.data.sequence_length
    yield from _problems_of_shape(shape)
    for name, value in (
        ("attention heads", shape.heads),
        ("key and value heads", shape.key_value_heads),
        ("columns of the feed-forward", shape.feed_forward),
        ("tokens of the vocabulary", vocabulary),
        ("tokens of data.sequence_length / parallel.cp", length // layout.cp),
    ):
        yield from _divides("tp", layout.tp, value, name)
    if job.parallel.cp_method == "all-to-all":
        yield from _divides("cp", layout.cp, length, "tokens of data.sequence_length")
        yield from _divides(
            "cp", layout.cp, shape.key_value_heads // layout.tp, "key and value heads (after tp) for all-to-all"
        )
    elif layout.cp > 1 and length % (2 * layout.cp):
        yield (
            f"parallel.cp is {layout.cp}, but data.sequence_length {length} is no multiple of 2 x {layout.cp} = "
            f"{2 * layout.cp}: a rank has a chunk from the head and one from the tail; "
            f"use {length // (2 * layout.cp) * 2 * layout.cp or 2 * layout.cp} tokens"
        )
    if (length // layout.cp) % job.memory.loss_chunks:
        yield (
            f"memory.loss_chunks is {job.memory.loss_chunks}, which does not divide the {length // layout.cp} tokens "
            "of a sample on one rank; use a power of two"
        )
    if layout.ep > 1:
        if not shape.experts:
            yield (
                f"parallel.ep is {layout.ep}, but {job.model} has no experts; leave parallel.ep out, or set "
                "variant.experts"
            )
        yield from _divides("ep", layout.ep, shape.experts, "experts")
        yield from _divides("ep", layout.ep, layout.dp_shard * layout.cp, "ranks of parallel.dp_shard x parallel.cp")
    if layout.pp > 1:
        yield from _problems_of_pipeline(shape, job, layout)


def _problems_of_shape(shape: Shape) -> Iterator[str]:
    """Yield the sizes that no layout allows. A variant can have them."""
    width = shape.attention_width or shape.hidden
    for what, value, key, divisor in (
        ("the width of attention", width, "heads", 2 * shape.heads),
        ("the number of query heads", shape.heads, "key_value_heads", shape.key_value_heads),
    ):
        if value % divisor:
            yield (
                f"variant.{key} is {getattr(shape, key)}, which does not fit {what}, {value}: that has to be a "
                f"multiple of {divisor}"
            )
    if shape.experts and shape.experts_per_token > shape.experts:
        yield (
            f"variant.experts_per_token is {shape.experts_per_token}, but a layer has {shape.experts} experts; use at "
            "most as many"
        )


def _problems_of_pipeline(shape: Shape, job: Job, layout: Layout) -> Iterator[str]:
    stages = layout.pp * job.parallel.stages_per_rank
    if shape.tied:
        yield (
            f"parallel.pp is {layout.pp}, but {job.model} has one matrix for embedding and output, which are on the "
            "first and the last rank of a pipeline; set variant.tied to false, or parallel.pp to 1"
        )
    if stages > shape.layers:
        yield (
            f"parallel.pp {layout.pp} with pp_schedule {job.parallel.pp_schedule} makes {stages} stages, but "
            f"{job.model} has {shape.layers} layers; use at most {shape.layers // job.parallel.stages_per_rank}"
        )


def _divides(degree_name: str, degree: int, value: int, what: str) -> Iterator[str]:
    if value % degree:
        yield (f"parallel.{degree_name} is {degree}, which does not divide the {value} {what}; use a degree that does")
