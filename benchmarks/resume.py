"""Measure the seconds from opening the data to the first batch, at the beginning of an epoch and at its end.

    python -m benchmarks.resume

By its index, the corpus is as large as a real one: 1,000 shards of 2^27 tokens. Its files are sparse, so the time is
that of locating the samples, not of reading a disk. The processor seconds of all threads decide, and the time by the
clock is beside them. The positions take turns (see turns.py), and 1 % is measured twice:
the second is the control. The other loader goes over all earlier samples, as a loader without a state of its own does.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns
from training.data.batches import Samples, rank_batches
from training.data.permutation import Permutation
from training.data.shards import File, Index, Shard

SEQUENCE = 8192
SHARDS = 1000
TOKENS = 2**27  # of a shard
BATCH = 16
PLACES = (0.01, 0.5, 0.99)
REPETITIONS = 41
SKIPS = 5


def main() -> None:
    """Measure the seconds at each position, and their ratios to the first."""
    out = arguments("resume", __doc__).parse_args().out
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        index = sparse_corpus(root)
        count = SHARDS * ((TOKENS - 1) // SEQUENCE)
        positions = {f"{place:.0%}": place for place in PLACES}
        first = take_turns(
            {
                name: lambda place=place: timed(lambda: ours(root, index, int(place * count)))  # type: ignore[misc]
                for name, place in (positions | {"1% again": PLACES[0]}).items()
            },
            REPETITIONS,
        )
        skipped = take_turns(
            {name: lambda place=place: timed(lambda: skipping(count, place)) for name, place in positions.items()},  # type: ignore[misc]
            SKIPS,
        )
    figures: dict[str, Any] = {"samples": count}
    for number, clock in enumerate(("processor", "wall")):
        seconds = {name: [each[number] for each in times] for name, times in first.items()}
        figures[f"{clock}_seconds_at"] = {name: Spread.of(each).document() for name, each in seconds.items()}
        figures[f"{clock}_seconds_over_1%"] = {
            name: ratios(each, seconds["1%"]).document() for name, each in seconds.items() if name != "1%"
        }
        figures[f"skipping_{clock}_seconds_at"] = {
            name: Spread.of([each[number] for each in times]).document() for name, times in skipped.items()
        }
    record(figures, libraries=["torch", "numpy"], out=out)


def timed(action: Callable[[], None]) -> tuple[float, float]:
    """Return the processor seconds that an action takes, and its seconds by the clock."""
    began, processor = time.perf_counter(), time.process_time()
    action()
    return time.process_time() - processor, time.perf_counter() - began


def ours(root: Path, index: Index, first: int) -> None:
    """Open the data, and read the batch at a position."""
    samples = Samples(str(root), index, SEQUENCE, 0, 64)
    batches = rank_batches(samples, first, BATCH, 0, 1, pin=False)
    next(batches)
    batches.close()
    samples.close()


def skipping(count: int, place: float) -> None:
    """Go over the order up to a position, batch by batch, without reading anything: the minimum cost of skipping."""
    order = Permutation(count, 0)
    for first in range(0, int(place * count) + BATCH, 2**16):
        order(np.arange(first, min(first + 2**16, count)))


def sparse_corpus(root: Path) -> Index:
    """Write sparse shards of zeros."""
    shards = []
    for number in range(SHARDS):
        name = f"train-{number:05d}.bin"
        with (root / name).open("wb") as file:
            file.truncate(2 * TOKENS)
        shards.append(Shard(name=name, bytes=2 * TOKENS, sha256=f"{number:064x}", tokens=TOKENS, documents=1))
    nothing = File(name="tokenizer.json", bytes=0, sha256="")
    return Index(
        dtype="uint16", vocabulary=50_000, end_of_text=0, tokenizer=nothing, recipe="", source="", shards=tuple(shards)
    )


if __name__ == "__main__":
    main()
