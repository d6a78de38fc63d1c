"""The layout of a job on its ranks."""

import math
from dataclasses import dataclass, replace

from training.config.batch import Batch
from training.config.evaluation import Evaluation
from training.config.parallel import DEGREES, Parallel


@dataclass(frozen=True)
class Layout:
    """The parallel degrees and the accumulation for a world size. All are counts."""

    pp: int
    dp_replicate: int
    dp_shard: int
    cp: int
    tp: int
    ep: int
    accumulation_steps: int
    """Micro-batches of a rank in one optimizer step."""
    evaluation_passes: int
    """Micro-batches of a rank in one evaluation. 0 without evaluation."""

    @property
    def dp(self) -> int:
        """Return the number of groups of ranks that process different samples."""
        return self.dp_replicate * self.dp_shard


def layout_of(parallel: Parallel, batch: Batch, evaluation: Evaluation, world_size: int) -> Layout:
    """Return the layout for `world_size` ranks.

    Raises:
        ValueError: a number does not divide. The message says which one, and which would.
    """
    degrees = {name: int(getattr(parallel, name)) for name in DEGREES}
    given = {name: degree for name, degree in degrees.items() if degree not in (-1, 1)}
    product = math.prod(given.values())
    derived = next((name for name, degree in degrees.items() if degree == -1), None)
    if derived and world_size % product:
        raise ValueError(
            f"parallel.{_product(given)}, which does not divide the {world_size} ranks of this job; "
            f"use a divisor of {world_size}, or another number of nodes"
        )
    if derived:
        degrees[derived] = world_size // product
    elif product != world_size:
        raise ValueError(
            f"parallel.{_product(given or degrees)}, but the job has {world_size} ranks; "
            "set one of them to -1 to derive it"
        )
    layout = Layout(**degrees, ep=parallel.ep, accumulation_steps=1, evaluation_passes=0)
    samples_per_pass = batch.micro * layout.dp
    if batch.global_ % samples_per_pass:
        raise ValueError(
            f"batch.global is {batch.global_}, but one pass of {layout.dp} data-parallel ranks with "
            f"batch.micro {batch.micro} takes {samples_per_pass} samples; make batch.global a multiple of that"
        )
    if evaluation.shards and evaluation.samples % samples_per_pass:
        raise ValueError(
            f"evaluation.samples is {evaluation.samples}, but one pass of {layout.dp} data-parallel ranks "
            f"with batch.micro {batch.micro} takes {samples_per_pass} samples; make evaluation.samples a "
            "multiple of that"
        )
    passes = evaluation.samples // samples_per_pass if evaluation.shards else 0
    layout = replace(layout, accumulation_steps=batch.global_ // samples_per_pass, evaluation_passes=passes)
    if layout.pp > 1 and layout.accumulation_steps % layout.pp:
        raise ValueError(
            f"batch.global {batch.global_} makes {layout.accumulation_steps} micro-batches a rank, which "
            f"parallel.pp {layout.pp} does not divide; make batch.global a multiple of "
            f"{samples_per_pass * layout.pp}"
        )
    if layout.evaluation_passes % layout.pp:
        raise ValueError(
            f"evaluation.samples {evaluation.samples} makes {layout.evaluation_passes} micro-batches a rank, which "
            f"parallel.pp {layout.pp} does not divide; make evaluation.samples a multiple of "
            f"{samples_per_pass * layout.pp}"
        )
    return layout


def _product(degrees: dict[str, int]) -> str:
    """Return the degrees as a sentence: `dp_shard is 8`, or `dp_shard x tp is 4 x 2 = 8`."""
    names, values = " x ".join(degrees), " x ".join(map(str, degrees.values()))
    return f"{names} is {values}" + (f" = {math.prod(degrees.values())}" if len(degrees) > 1 else "")
