"""Measure what the training loop adds to a step, compared with bare hand-written loops on the same model and corpus.

    python -m benchmarks.overhead

Each loop is a process with one compute thread. They take turns step by step, so that other work on the machine affects
all of them. The bare loops have a memory map, cross-entropy, clipping, and PyTorch's fused AdamW, and read their loss
every step. They have no metrics, checkpoints, or way to stop. One has the plain model, and one has it sharded by FSDP2,
which the job does not use on one rank. The figure is the processor time of all threads in a step, which other work
disturbs less than the clock. The overhead is the median of the ratios of all rounds.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from benchmarks.one_rank import environment
from benchmarks.record import arguments, record
from training.config import Job
from training.config.presets import PRESETS
from training.data.corpus import python_standard_library
from training.data.shards import read_index
from training.model.decoder import Decoder, initialize, rotary_cache
from training.observe.metrics import Metrics
from training.prepare import prepare
from training.train import train

SEQUENCE, BATCH, ROUNDS, WARM_UP = 512, 8, 30, 3
LOOPS = ("trainway", "bare, sharded", "bare")


def main() -> None:
    """Measure the processor seconds of a step of each loop, and the overhead of ours."""
    parser = arguments("overhead", __doc__)
    parser.add_argument("--only", nargs=2, metavar=("LOOP", "CORPUS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only:
        loop, corpus = chosen.only
        torch.set_num_threads(1)
        if loop == "trainway":
            ours(Path(corpus))
        else:
            bare(Path(corpus), sharded=loop == "bare, sharded")
        return
    with tempfile.TemporaryDirectory() as directory:
        prepare(python_standard_library(limit_bytes=1_000_000), directory, vocabulary=512)
        running = {loop: started(loop, directory) for loop in LOOPS}
        rounds = [{loop: step(each) for loop, each in running.items()} for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
        for each in running.values():
            each.communicate("\n" * 2)
    seconds = {loop: np.array([each[loop] for each in rounds]) for loop in LOOPS}
    record(
        {
            "processor_seconds_of_a_step": {loop: round(float(np.median(each)), 4) for loop, each in seconds.items()},
            "quartiles": {loop: np.quantile(each, [0.25, 0.75]).round(4).tolist() for loop, each in seconds.items()},
            "overhead_over": {
                loop: round(float(np.median(seconds["trainway"] / seconds[loop])) - 1, 4) for loop in LOOPS[1:]
            },
            "rounds": ROUNDS,
        },
        libraries=["torch", "numpy"],
        out=chosen.out,
    )


def started(loop: str, corpus: str) -> subprocess.Popen[str]:
    """Start the process of a loop, which waits for a line before every step."""
    command = [sys.executable, "-m", "benchmarks.overhead", "--only", loop, corpus]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def step(loop: subprocess.Popen[str]) -> float:
    """Let a loop run a step, and return its processor seconds."""
    assert loop.stdin
    assert loop.stdout
    loop.stdin.write("\n")
    loop.stdin.flush()
    for line in loop.stdout:
        if line.startswith(MARK):
            return float(line.removeprefix(MARK))
    raise RuntimeError(f"a loop ended with status {loop.wait()}")


MARK = "processor seconds: "


class Turns:
    """The hook of a loop between two steps."""

    def __init__(self) -> None:
        self._before = time.process_time()

    def next(self) -> None:
        """Report the processor seconds of the step, and wait for the next turn."""
        print(f"{MARK}{time.process_time() - self._before}", flush=True)
        sys.stdin.readline()
        self._before = time.process_time()


def ours(corpus: Path) -> None:
    """Run the job's own loop."""
    turns, report = Turns(), Metrics.step

    def reported(metrics: Metrics, values: dict[str, Any]) -> None:
        report(metrics, values)
        turns.next()

    Metrics.step = reported  # type: ignore[method-assign, assignment]
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
            until_step=WARM_UP + ROUNDS + 1,
        )
    dist.destroy_process_group()


def bare(corpus: Path, sharded: bool) -> None:
    """Run the bare loop."""
    index = read_index(str(corpus))
    tokens = np.memmap(corpus / index.shards[0].name, dtype=index.dtype, mode="r")
    order = np.random.default_rng(0).permutation((len(tokens) - 1) // SEQUENCE)
    model = Decoder(PRESETS["tiny"], index.vocabulary)
    initialize(model, 0)
    if sharded:
        dist.init_process_group("gloo")
        for layer in model.layers.values():
            fully_shard(layer)
        fully_shard(model)
    rotary = rotary_cache(PRESETS["tiny"], SEQUENCE)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, (0.9, 0.95), fused=True)
    turns = Turns()
    for number in range(WARM_UP + ROUNDS + 1):
        firsts = order[number * BATCH : (number + 1) * BATCH] * SEQUENCE
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
        turns.next()
    if sharded:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
