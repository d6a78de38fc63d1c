"""Measure the seconds from opening the data to the first batch, at the beginning of an epoch and at its end.

    python -m benchmarks.resume

By its index, the corpus is as large as a real one: 1,000 shards of 2^27 tokens. Its files are sparse, so the time is
that of locating the samples, not of reading a disk. The other loader goes over all earlier samples, as a loader without
a state of its own does.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.record import arguments, record
from training.data.batches import Samples, rank_batches
from training.data.permutation import Permutation
from training.data.shards import File, Index, Shard

SEQUENCE = 8192
SHARDS = 1000
TOKENS = 2**27  # of a shard
BATCH = 16
PLACES = (0.01, 0.5, 0.99)
REPETITIONS = 41


def main() -> None:
    """Measure the seconds at each position, and the ratio of the last to the first."""
    out = arguments("resume", __doc__).parse_args().out
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        index = sparse_corpus(root)
        count = SHARDS * ((TOKENS - 1) // SEQUENCE)
        seconds: dict[str, dict[float, list[float]]] = {
            name: {place: [] for place in PLACES} for name in ("trainway", "skipping")
        }
        for _ in range(REPETITIONS):
            for place in PLACES:
                first = int(place * count)
                seconds["trainway"][place].append(timed(lambda first=first: ours(root, index, first)))  # type: ignore[misc]
        for place in PLACES:
            seconds["skipping"][place].append(timed(lambda place=place: skipping(count, place)))  # type: ignore[misc]
    medians = {name: {place: median(each) for place, each in places.items()} for name, places in seconds.items()}
    record(
        {
            "samples": count,
            "milliseconds_at": {
                name: {f"{place:.0%}": round(1e3 * each, 2) for place, each in places.items()}
                for name, places in medians.items()
            },
            "99%_over_1%": {name: round(places[0.99] / places[0.01], 2) for name, places in medians.items()},
            "repetitions": REPETITIONS,
        },
        libraries=["torch", "numpy"],
        out=out,
    )


def timed(action: Callable[[], None]) -> float:
    """Return the seconds that an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


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
