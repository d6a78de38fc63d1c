"""What the training loop costs a step, over bare hand-written loops of the same model on samples of the same corpus.

    python -m benchmarks.overhead

All run on one CPU process, in turns. The bare loops have a memory map, cross-entropy, clipping and PyTorch's fused
AdamW, and read their loss every step; they have no metrics, checkpoints or way to stop. One has the plain model, and
one the model sharded by FSDP2 as the job's is, so that the job's own cost can be told from that of sharding. What is
compared is the processor time of all threads, which other work on the machine disturbs less than it does the clock.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from training.config import Job
from training.corpus import python_standard_library
from training.metrics import Metrics
from training.model import Decoder, initialise, rotary_cache
from training.prepare import prepare
from training.presets import PRESETS
from training.shards import read_index
from training.train import train

SEQUENCE, BATCH, STEPS, WARM_UP, TURNS = 512, 8, 10, 2, 2


def main() -> None:
    """Prints the processor seconds of a step of each, and by how much ours are more."""
    if len(sys.argv) > 1:
        loop, corpus = sys.argv[1:]
        torch.set_num_threads(1)
        marks = ours(Path(corpus)) if loop == "trainway" else bare(Path(corpus), sharded=loop == "bare, sharded")
        # The last step of the job writes a checkpoint.
        print(json.dumps(np.diff(marks)[WARM_UP:-1].tolist()))
        return
    seconds: dict[str, list[float]] = {"trainway": [], "bare, sharded": [], "bare": []}
    with tempfile.TemporaryDirectory() as directory:
        prepare(python_standard_library(limit_bytes=1_000_000), directory, vocabulary=512)
        for _ in range(TURNS):
            for loop, each in seconds.items():
                command = [sys.executable, "-m", "benchmarks.overhead", loop, directory]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment())
                each += json.loads(done.stdout.splitlines()[-1])
    medians = {name: median(each) for name, each in seconds.items()}
    print(
        json.dumps(
            {
                "processor_seconds_of_a_step": {name: round(each, 4) for name, each in medians.items()},
                "quartiles": {
                    name: np.quantile(each, [0.25, 0.75]).round(4).tolist() for name, each in seconds.items()
                },
                "overhead_over": {
                    name: round(medians["trainway"] / each - 1, 4)
                    for name, each in medians.items()
                    if name != "trainway"
                },
                "steps_of_each": len(seconds["bare"]),
                "torch": torch.__version__,
            },
            indent=2,
        )
    )


def environment() -> dict[str, str]:
    """One thread, because the machine may be shared; and what torchrun would set for one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def ours(corpus: Path) -> list[float]:
    """Processor seconds at the end of each step of the job."""
    marks: list[float] = []
    report = Metrics.step

    def marked(metrics: Metrics, values: dict[str, Any]) -> None:
        report(metrics, values)
        marks.append(time.process_time())

    Metrics.step = marked  # type: ignore[method-assign, assignment]
    with tempfile.TemporaryDirectory() as run:
        os.environ["TRAINWAY_RUN"] = run
        train(
            Job.model_validate(
                {
                    "name": "overhead",
                    "model": "tiny",
                    "data": {"train": str(corpus), "sequence_length": SEQUENCE},
                    "precision": "fp32",
                    "batch": {"global": BATCH, "micro": BATCH},
                    "steps": 1000,
                    "checkpoint": {"every": 1000, "location": f"{run}/checkpoints"},
                }
            ),
            until_step=STEPS + 1,
        )
    dist.destroy_process_group()
    return marks


def bare(corpus: Path, sharded: bool) -> list[float]:
    """Processor seconds at the end of each step of the loop below."""
    index = read_index(str(corpus))
    tokens = np.memmap(corpus / index.shards[0].name, dtype=index.dtype, mode="r")
    order = np.random.default_rng(0).permutation((len(tokens) - 1) // SEQUENCE)
    model = Decoder(PRESETS["tiny"], index.vocabulary)
    initialise(model, 0)
    if sharded:
        dist.init_process_group("gloo")
        for layer in model.layers.values():
            fully_shard(layer)
        fully_shard(model)
    rotary = rotary_cache(PRESETS["tiny"], SEQUENCE)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, (0.9, 0.95), fused=True)
    marks = []
    for step in range(STEPS + 1):
        firsts = order[step * BATCH : (step + 1) * BATCH] * SEQUENCE
        samples = torch.from_numpy(
            np.stack([tokens[first : first + SEQUENCE + 1] for first in firsts]).astype(np.int64)
        )
        logits = model(samples[:, :-1], rotary)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        marks.append(time.process_time())
    if sharded:
        dist.destroy_process_group()
    return marks


if __name__ == "__main__":
    main()
