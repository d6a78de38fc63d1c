"""Measure how long an asynchronous checkpoint stalls training, compared with a synchronous one.

    python -m benchmarks.checkpoint_stall [--disk DIRECTORY]

Two ranks on gloo train `125m`, sharded by FSDP: 1.5 GB of weights and moments, on the disk of DIRECTORY (default: that
of temporary files), each file with fsync. The job's own saver writes both kinds in turns (see turns.py), with the usual
training steps between them, so that changes of the disk's speed affect both. If the machine has too few cores,
the checkpoint does not stall training but makes the steps longer: `step_seconds` has both.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns
from training.checkpoint import Destination, Progress, Saved, Saver
from training.config import Checkpoint, Optimizer
from training.config.presets import PRESETS
from training.hosts import location_files
from training.model.decoder import Decoder, initialize, materialize, rotary_cache
from training.optim.optimizer import make_optimizer
from training.parallel.fsdp import shard

RANKS, SEQUENCE, VOCABULARY, TURNS, STEPS_BETWEEN = 2, 16, 32_768, 5, 2
KINDS = ("synchronous", "asynchronous")
FIGURES = "figures.json"


def main() -> None:
    """Measure the seconds of both kinds, and their ratios in the turns after the first."""
    parser = arguments("checkpoint_stall", __doc__)
    parser.add_argument("--disk", type=Path, default=tempfile.gettempdir(), help="a directory on the disk to write to")
    parser.add_argument("--rank-in", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank_in:
        measure(chosen.rank_in)
        return
    with tempfile.TemporaryDirectory(dir=chosen.disk) as directory:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        rank = ["-m", "benchmarks.checkpoint_stall", "--rank-in", directory]
        subprocess.run([*torchrun, *rank], env=environment, check=True)
        record(json.loads((Path(directory) / FIGURES).read_text()), ["torch"], chosen.out)


def measure(directory: Path) -> None:
    """Run one rank's part. The first rank writes the figures to the directory."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    shape = PRESETS["125m"]
    with torch.device("meta"):
        model = Decoder(shape, VOCABULARY)
    shard(model, init_device_mesh("cpu", (RANKS,)), "fp32")
    materialize(model, torch.device("cpu"))
    initialize(model, seed=0)
    optimizer = make_optimizer(model, Optimizer())
    tokens, rotary = torch.arange(SEQUENCE)[None], rotary_cache(shape, SEQUENCE)
    savers = {kind: saver_of(kind, directory) for kind in KINDS}
    turns = itertools.count(1)
    steps: dict[str, list[float]] = {"alone": [], "beside a save": []}

    def step(saver: Saver) -> float:
        began = time.perf_counter()
        model(tokens, rotary, tokens).backward()
        saver.wait_until_copied()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - began

    def save(kind: str) -> Saved:
        saver = savers[kind]
        steps["alone"] += [step(saver) for _ in range(STEPS_BETWEEN)]
        dist.barrier()
        saver.save(model, optimizer, Progress(next(turns), 0, 0.0), {})
        saved: list[Saved] = []
        while not on_every_rank(bool(saved := saved or saver.complete())):
            steps["beside a save"].append(step(saver))
        return saved[0]

    saves = take_turns({kind: partial(save, kind) for kind in KINDS}, TURNS)
    for saver in savers.values():
        saver.close()
    if dist.get_rank() == 0:
        # The first turn of each kind is also the first to use its memory.
        seconds = {kind: [each.seconds for each in of_kind[1:]] for kind, of_kind in saves.items()}
        totals = [each.total_seconds for each in saves["asynchronous"][1:]]
        result = {
            "state_bytes": sum(location_files.list_sizes(str(directory / "synchronous")).values()),
            "seconds_of_standstill": {kind: Spread.of(each).document() for kind, each in seconds.items()},
            "asynchronous_over_synchronous": ratios(seconds["asynchronous"], seconds["synchronous"]).document(),
            "seconds_until_an_asynchronous_one_is_complete": Spread.of(totals).document(),
            "step_seconds": {name: Spread.of(each).document() for name, each in steps.items()},
            "ranks": RANKS,
        }
        (directory / FIGURES).write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def saver_of(kind: str, directory: Path) -> Saver:
    """Return the saver of a job that keeps one checkpoint."""
    settings = Checkpoint.model_validate({"every": 1, "keep": 1, "async": kind == "asynchronous"})
    destination = Destination(str(directory / kind), None, dist.new_group(backend="gloo"))
    return Saver(destination, settings, torch.device("cpu"), lambda: None)


def on_every_rank(fact: bool) -> bool:
    """Return whether `fact` is true on all ranks, so that they run the same number of steps."""
    facts = torch.tensor(float(fact))
    dist.all_reduce(facts)
    return facts.item() == RANKS


if __name__ == "__main__":
    main()
