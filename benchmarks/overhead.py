"""Measure what the training loop adds to a step, compared with bare hand-written loops on the same model and corpus.

    python -m benchmarks.overhead

Each loop is a process with one compute thread, and the loops take turns step by step (see turns.py). The bare loops
have a memory map, cross-entropy, clipping, and PyTorch's fused AdamW, and read their loss every step. They have no
metrics, checkpoints, or way to stop. One has the plain model, twice: the second is the control, whose ratio to the
first says what the machine resolves. One has it sharded by FSDP2, which the job does not use on one rank.

The figure is the processor time of all threads in a step, which other work disturbs less than the clock. The time by
the clock is beside it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from benchmarks.one_rank import environment
from benchmarks.record import arguments, record
from benchmarks.turns import MARK, Spread, Turns, ratios, take_turns
from training.config import Job
from training.config.presets import PRESETS
from training.data.corpus import python_standard_library
from training.data.shards import read_index
from training.model.decoder import Decoder, initialize, rotary_cache
from training.observe.metrics import Metrics
from training.prepare import prepare
from training.train import train

SEQUENCE, BATCH, ROUNDS, WARM_UP = 512, 8, 40, 3
LOOPS = ("trainway", "bare", "bare again", "bare, sharded")


def main() -> None:
    """Measure the seconds of a step of each loop, and their ratios to the bare one."""
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
        steps = take_turns({loop: partial(step, each) for loop, each in running.items()}, WARM_UP + ROUNDS)
        for each in running.values():
            each.communicate("\n" * 2)
    figures: dict[str, Any] = {}
    for number, clock in enumerate(("processor", "wall")):
        seconds = {loop: [each[number] for each in of_loop[WARM_UP:]] for loop, of_loop in steps.items()}
        figures[f"{clock}_seconds_of_a_step"] = {loop: Spread.of(each).document() for loop, each in seconds.items()}
        figures[f"{clock}_seconds_over_bare"] = {
            loop: ratios(each, seconds["bare"]).document() for loop, each in seconds.items() if loop != "bare"
        }
    record(figures, libraries=["torch", "numpy"], out=chosen.out)


def started(loop: str, corpus: str) -> subprocess.Popen[str]:
    """Start the process of a loop, which waits for a line before every step."""
    command = [sys.executable, "-m", "benchmarks.overhead", "--only", loop, corpus]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def step(loop: subprocess.Popen[str]) -> tuple[float, float]:
    """Let a loop run a step, and return its processor seconds and its seconds by the clock."""
    assert loop.stdin
    assert loop.stdout
    loop.stdin.write("\n")
    loop.stdin.flush()
    for line in loop.stdout:
        if line.startswith(MARK):
            processor, wall = line.removeprefix(MARK).split()
            return float(processor), float(wall)
    raise RuntimeError(f"a loop ended with status {loop.wait()}")


def ours(corpus: Path) -> None:
    """Run the job's own loop."""
    turns, report = Turns(), Metrics.step

    def reported(metrics: Metrics, values: dict[str, Any]) -> None:
        report(metrics, values)
        turns.next()

    Metrics.step = reported  # type: ignore[method-assign, assignment]
    run_job(corpus, WARM_UP + ROUNDS + 1)


def run_job(corpus: Path, until_step: int) -> None:
    """Train a tiny model in this process, as its only rank."""
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
            until_step=until_step,
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
