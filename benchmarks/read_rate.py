"""Measure the tokens per second that one process reads in shuffled order: ours, a raw memory map, and WebDataset.

    python -m benchmarks.read_rate

All three return batches of int64 tokens from the same random tokens, in files in the system's cache. The raw memory map
is the limit: one file, a precomputed permutation, and one indexing operation per batch. It runs twice a round: the
second is the control. The readers take short turns (see turns.py), and a ratio is that of two turns of a round.

A rank verifies each block of a shard when it first reads it. The rates above are those of blocks that are verified
already. Two more readers read one epoch of shards that they have just opened, with and without checksums.

Rates are by the clock. Tokens per processor second are beside them, in which the job's reader pays for its thread that
reads ahead.
"""

import hashlib
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import webdataset
from numpy.typing import NDArray

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns
from training.data.batches import Samples, rank_batches
from training.data.checksum_writer import write_checksums
from training.data.shards import File, Index, Shard

SEQUENCE = 2048
SHARDS = 4
SAMPLES = 2048  # of a shard
BATCHES = (1, 4, 16, 64)
TURNS = 30
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


def compared(root: Path, verified: Index, batch: int) -> dict[str, Any]:
    """Return the rates of all readers with batches of `batch` samples."""
    shards = tuple(shard.model_copy(update={"checksums": None}) for shard in verified.shards)
    index = verified.model_copy(update={"shards": shards})
    readers: dict[str, Callable[[], Iterator[torch.Tensor]]] = {
        "trainway": lambda: ours(root, index, batch),
        "memory map": lambda: raw(root / "train.bin", batch),
        "memory map again": lambda: raw(root / "train.bin", batch),
        "webdataset": lambda: tars(root, batch),
        "first epoch": lambda: islice(ours(root, index, batch), SHARDS * SAMPLES // batch),
        "first epoch, verified": lambda: islice(ours(root, verified, batch), SHARDS * SAMPLES // batch),
    }
    measured = take_turns({name: lambda reader=reader: rate(reader()) for name, reader in readers.items()}, TURNS)  # type: ignore[misc]
    found: dict[str, Any] = {}
    for number, clock in enumerate(("wall", "processor")):
        rates = {name: [turn[number] for turn in turns] for name, turns in measured.items()}
        found[f"million_tokens_per_{clock}_second"] = {
            name: Spread.of([each / 1e6 for each in of_reader]).document() for name, of_reader in rates.items()
        }
        found[f"over_others_by_{clock}_second"] = {
            name: ratios(rates["trainway"], rates[name]).document() for name in ("memory map", "webdataset")
        }
        found[f"verified_over_unverified_by_{clock}_second"] = ratios(
            rates["first epoch, verified"], rates["first epoch"]
        ).document()
        found[f"control_by_{clock}_second"] = ratios(rates["memory map again"], rates["memory map"]).document()
    return found


def rate(batches: Iterator[torch.Tensor]) -> tuple[float, float]:
    """Return the tokens per second by the clock, and per processor second, from the second batch on."""
    next(batches)
    tokens, began, processor = 0, time.perf_counter(), time.process_time()
    for batch in batches:
        tokens += batch.numel()
        if time.perf_counter() - began >= SECONDS:
            break
    return tokens / (time.perf_counter() - began), tokens / (time.process_time() - processor)


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
            shard = Shard(
                name=path.name,
                bytes=tokens.nbytes,
                sha256=hashlib.sha256(tokens.tobytes()).hexdigest(),
                tokens=len(tokens),
                documents=1,
                checksums=write_checksums(str(root), path.name, tokens.tobytes()),
            )
            shards.append(shard)
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
