"""Measure the tokens per second that one process reads in shuffled order: ours, a raw memory map, and WebDataset.

    python -m benchmarks.read_rate

All three return batches of int64 tokens from the same random tokens, in files in the system's cache. The raw memory map
is the limit: one file, a precomputed permutation, and one indexing operation per batch. A rate is that of the best of
many short turns, because other work on the machine only slows a turn.
"""

import hashlib
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import webdataset
from numpy.typing import NDArray

from benchmarks.record import arguments, record
from training.data.batches import Samples, rank_batches
from training.data.shards import File, Index, Shard

SEQUENCE = 2048
SHARDS = 4
SAMPLES = 2048  # of a shard
BATCHES = (1, 4, 16, 64)
TURNS = 60
SECONDS = 0.1  # of one turn of one reader


def main() -> None:
    """Measure the rates, and the ratio of ours to each of the others."""
    out = arguments("read_rate", __doc__).parse_args().out
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        index = write(root)
        by_batch = {str(batch): compared(root, index, batch) for batch in BATCHES}
    record(
        {"sequence_length": SEQUENCE, "turns": TURNS, "samples_of_a_batch": by_batch},
        libraries=["torch", "numpy", "webdataset"],
        out=out,
    )


def compared(root: Path, index: Index, batch: int) -> dict[str, Any]:
    """Return the rates of all readers with batches of `batch` samples."""
    readers: dict[str, Callable[[], Iterator[torch.Tensor]]] = {
        "trainway": lambda: ours(root, index, batch),
        "memory map": lambda: raw(root / "train.bin", batch),
        "webdataset": lambda: tars(root, batch),
    }
    rates: dict[str, list[float]] = {name: [] for name in readers}
    # The readers take turns, so that other work on the machine affects all of them.
    for _ in range(TURNS):
        for name, reader in readers.items():
            rates[name].append(rate(reader()))
    best = {name: max(each) for name, each in rates.items()}
    return {
        "million_tokens_per_second": {name: round(each / 1e6, 1) for name, each in best.items()},
        "medians": {name: round(median(each) / 1e6, 1) for name, each in rates.items()},
        "ours_over": {name: round(best["trainway"] / each, 2) for name, each in best.items() if name != "trainway"},
    }


def rate(batches: Iterator[torch.Tensor]) -> float:
    """Return the tokens per second, from the second batch on."""
    next(batches)
    tokens, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < SECONDS:
        tokens += next(batches).numel()
    return tokens / spent


def write(root: Path) -> Index:
    """Write the same tokens as shards, as one file, and as tar files of samples."""
    random = np.random.default_rng(0)
    shards = []
    with (root / "train.bin").open("wb") as whole:
        for number in range(SHARDS):
            tokens = random.integers(0, 50_000, SAMPLES * SEQUENCE + 1, dtype=np.uint16)
            path = root / f"train-{number}.bin"
            path.write_bytes(tokens.tobytes())
            whole.write(tokens.tobytes())
            digest = hashlib.sha256(tokens.tobytes()).hexdigest()
            shards.append(Shard(name=path.name, bytes=tokens.nbytes, sha256=digest, tokens=len(tokens), documents=1))
            with tarfile.open(root / f"train-{number}.tar", "w") as tar:
                for sample in range(SAMPLES):
                    first = sample * SEQUENCE
                    content = tokens[first : first + SEQUENCE + 1].tobytes()
                    entry = tarfile.TarInfo(f"{sample:06d}.bin")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
    nothing = File(name="tokenizer.json", bytes=0, sha256="")
    return Index(
        dtype="uint16", vocabulary=50_000, end_of_text=0, tokenizer=nothing, recipe="", source="", shards=tuple(shards)
    )


def ours(root: Path, index: Index, batch: int) -> Iterator[torch.Tensor]:
    """Yield the job's batches, as its loop uses them."""
    samples = Samples(str(root), index, SEQUENCE, 0, 64)
    with closing(samples), closing(rank_batches(samples, 0, batch, 0, 1, pin=False)) as batches:
        for tokens in batches:
            yield tokens.long()


def raw(path: Path, batch: int) -> Iterator[torch.Tensor]:
    """Yield batches of samples in a precomputed order."""
    tokens: NDArray[np.uint16] = np.memmap(path, dtype=np.uint16, mode="r")
    samples = np.lib.stride_tricks.sliding_window_view(tokens, SEQUENCE + 1)[::SEQUENCE]
    order = np.random.default_rng(0).permutation(len(samples) // batch * batch)
    while True:
        for first in range(0, len(order), batch):
            yield torch.from_numpy(samples[order[first : first + batch]].astype(np.int64))


def tars(root: Path, batch: int) -> Iterator[torch.Tensor]:
    """Yield batches shuffled as in WebDataset's documentation, in this process."""
    files = sorted(str(path) for path in root.glob("*.tar"))
    dataset = (
        webdataset.WebDataset(files, shardshuffle=SHARDS, empty_check=False)
        .shuffle(1000)
        .map(lambda sample: torch.from_numpy(np.frombuffer(sample["bin"], np.uint16).astype(np.int64)))
        .batched(batch, collation_fn=torch.stack)
        .repeat()
    )
    yield from dataset


if __name__ == "__main__":
    main()
