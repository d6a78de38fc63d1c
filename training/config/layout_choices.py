"""Layouts of a job that divide its model, and an estimate of the time of a step in each, without torch.

The estimate is for comparing layouts, and is no promise of a speed: it assumes the same share of a GPU's peak for every
matrix product.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from training.config.arithmetic import flop_per_token
from training.config.footprint import VOCABULARY, footprint
from training.config.job import Job
from training.config.layout import Layout
from training.config.limits import layout_problems
from training.config.presets import Shape, shape_of

SHARE_OF_PEAK = 0.5
"""Assumed share of a GPU's peak that the products of a step reach, before communication and recomputation."""


@dataclass(frozen=True)
class NodeRates:
    """The rates of a node. `flops` are those of one GPU, per second. The others are bytes per second in one direction.

    `between_gpus` is the bandwidth of one GPU inside the node, and `network` that of the whole node.
    """

    gpus: int
    flops: float
    between_gpus: float
    network: float


@dataclass(frozen=True)
class LayoutChoice:
    """Changes to a job file, with the bytes that a rank needs and the estimated seconds of a step."""

    changes: dict[str, dict[str, Any]]
    needed: int
    seconds: float


def layout_choices(job: Job, ranks: int, node: NodeRates, limit: int) -> list[LayoutChoice]:
    """Return the layouts of a job on `ranks` ranks that need at most `limit` bytes of each, fastest first.

    They differ in the degrees `tp`, `pp`, and `dp_replicate`, in `batch.micro`, and in the keys of `memory`. The batch
    of a step, the degrees `cp` and `ep`, and all other keys stay.
    """
    found = []
    # No choice changes the shape of the model.
    document, shape = job.model_dump(by_alias=True, exclude_unset=True), shape_of(job.model, job.variant)
    for changes in _changes(job, node):
        changed = _changed(document, changes)
        if changed is None or not _divides(changed, shape, ranks):
            continue
        needed = footprint(changed, ranks).total
        if needed <= limit:
            found.append(LayoutChoice(changes, needed, step_seconds(changed, ranks, node)))
    # Of equally fast layouts, the one that needs least is first.
    return sorted(found, key=lambda choice: (choice.seconds, choice.needed))


def step_seconds(job: Job, ranks: int, node: NodeRates) -> float:
    """Return the estimated seconds of a step.

    The gathers and reductions of weights run during the computation. Those of activations do not, and a pipeline waits
    while it fills. Raises ValueError if the layout does not divide the ranks.
    """
    layout, shape = job.layout(ranks), shape_of(job.model, job.variant)
    work = job.tokens_per_step * flop_per_token(shape, VOCABULARY, job.data.sequence_length, causal=True)
    computing = work * _with_recomputation(job) / (ranks * node.flops * SHARE_OF_PEAK)
    weights, replicas = _traffic_of_weights(job, layout, shape, node)
    exposed = _traffic_of_activations(job, layout, shape, node)
    parts = 1 if job.parallel.pp_schedule == "1f1b" else 2
    bubble = (layout.pp - 1) / (parts * layout.accumulation_steps)
    return max(computing + exposed, weights) * (1 + bubble) + replicas


def _changes(job: Job, node: NodeRates) -> Iterator[dict[str, dict[str, Any]]]:
    powers = [2**power for power in range(8)]
    modes: list[str] = ["none", "selective", "full"] if job.parallel.ep == 1 else ["none", "full"]
    for tp, pp, replicas, micro, mode, chunks, reshard in product(
        [each for each in powers if node.gpus % each == 0],
        powers[:5],
        powers,
        powers[:4],
        modes,
        (1, 8),
        (True, False),
    ):
        if pp > 1 and not reshard:
            continue  # a pipeline keeps its weights in any case
        yield {
            "parallel": {"tp": tp, "pp": pp, "dp_replicate": replicas, "dp_shard": -1},
            "batch": {"micro": micro},
            "memory": {"activation_checkpointing": mode, "loss_chunks": chunks, "reshard_after_forward": reshard},
        }


def _changed(document: dict[str, Any], changes: dict[str, dict[str, Any]]) -> Job | None:
    """Return the job of a document with some changes, or None if the job file could not say so."""
    sections = {section: {**document.get(section, {}), **keys} for section, keys in changes.items()}
    try:
        return Job.model_validate(document | sections)
    except ValueError:
        return None


def _divides(job: Job, shape: Shape, ranks: int) -> bool:
    """Return whether the job has this layout on `ranks` ranks, by the rules that it checks itself when it starts."""
    try:
        layout = job.layout(ranks)
    except ValueError:
        return False
    return not any(layout_problems(shape, VOCABULARY, job, layout))


def _with_recomputation(job: Job) -> float:
    """Return the factor by which recomputation raises the arithmetic: a forward pass is a third of it."""
    again = {"none": 0, "selective": 1 / 6, "full": 1 / 3}[job.memory.activation_checkpointing]
    return 1 + again / job.memory.checkpoint_every


def _parameters(shape: Shape, layout: Layout) -> int:
    """Return the parameters of the stages and parts of matrices that a group of sharding ranks shares."""
    heads, keys = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    layer = shape.hidden * (2 * heads + 2 * keys + 3 * shape.feed_forward * (shape.experts or 1))
    ends = VOCABULARY * shape.hidden * (1 if shape.tied else 2)
    return (shape.layers * layer + ends) // layout.tp // layout.pp


def _traffic_of_weights(job: Job, layout: Layout, shape: Shape, node: NodeRates) -> tuple[float, float]:
    """Return the seconds of a step for the gathers and reductions over shards, and for the sums over replicas."""
    sharing, numbers = layout.dp_shard * layout.cp, _parameters(shape, layout)
    width = 4 if job.precision == "fp32" else 2
    once = layout.pp > 1
    passes = 1 if once else layout.accumulation_steps
    gathers = 1 if once or not job.memory.reshard_after_forward else 2
    sharded = job.memory.gradient_accumulation == "sharded"
    reductions = passes if sharded and not once else 1
    size = numbers * (width * gathers * passes + 4 * reductions) * (sharing - 1) / sharing
    shard = 2 * 4 * numbers / sharing * (layout.dp_replicate - 1) / layout.dp_replicate
    return _seconds(size, sharing, layout, node), _seconds(shard, layout.dp_replicate, layout, node, sharing)


def _seconds(size: float, members: int, layout: Layout, node: NodeRates, closer: int = 1) -> float:
    """Return the seconds in which each rank receives `size` bytes of a group of ranks.

    Ranks of a matrix product are neighbors, and then those that share weights. `closer` is the number of ranks between
    two members beside those of a product. Members in one node forward to each other what the node received once.
    """
    if members == 1:
        return 0.0
    neighbors = layout.tp * closer
    if members * neighbors <= node.gpus:
        return size / node.between_gpus
    inside = max(1, node.gpus // neighbors)
    return size * node.gpus / inside / node.network


def _traffic_of_activations(job: Job, layout: Layout, shape: Shape, node: NodeRates) -> float:
    """Return the seconds of a step for the communication inside layers, of tensor and context parallelism."""
    tokens = job.batch.micro * job.data.sequence_length // layout.cp
    width, layers = (4 if job.precision == "fp32" else 2), shape.layers / layout.pp
    # Two gathers and two reductions in each direction, and in a forward pass that is computed again.
    times = 12 if job.memory.activation_checkpointing == "full" else 8
    products = times * tokens * shape.hidden * width * (layout.tp - 1) / layout.tp / node.between_gpus
    keys = 2 * shape.key_value_heads * shape.head_width * width // layout.tp
    attention = _seconds(3 * tokens * keys * (layout.cp - 1), layout.cp, layout, node)
    return layout.accumulation_steps * layers * (products + attention)
