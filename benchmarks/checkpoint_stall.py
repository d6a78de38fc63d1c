"""Measure how long an asynchronous checkpoint stalls training, compared with a synchronous one.

    python -m benchmarks.checkpoint_stall [--disk DIRECTORY]

Two ranks on gloo train `125m`, sharded by FSDP: 1.5 GB of weights and moments, on the disk of DIRECTORY (default: that
of temporary files), each file with fsync. The job's own saver writes both kinds in turns, with the usual training steps
between them, so that their cost can be separated from changes of the disk's speed. If the machine has too few cores,
the checkpoint does not stall training but makes the steps longer: `step_seconds` has both.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from benchmarks.record import arguments, record
from training.checkpoint import Progress, Saved, Saver
from training.config import Checkpoint, Optimizer
from training.config.presets import PRESETS
from training.hosts import location_files
from training.model.decoder import Decoder, initialize, materialize, rotary_cache
from training.optim.optimizer import make_optimizer
from training.parallel.fsdp import shard

RANKS, SEQUENCE, VOCABULARY, TURNS, STEPS_BETWEEN = 2, 16, 32_768, 3, 2
KINDS = ("synchronous", "asynchronous")
FIGURES = "figures.json"


def main() -> None:
    """Measure the seconds of both kinds, and the ratio of their medians over the turns after the first."""
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
    saves: dict[str, list[Saved]] = {kind: [] for kind in KINDS}
    steps: dict[str, list[float]] = {"alone": [], "beside a save": []}

    def step(saver: Saver) -> float:
        began = time.perf_counter()
        model(tokens, rotary, tokens).backward()
        saver.wait_until_copied()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - began

    for turn in range(TURNS):
        for kind, saver in savers.items():
            steps["alone"] += [step(saver) for _ in range(STEPS_BETWEEN)]
            dist.barrier()
            saver.save(model, optimizer, Progress(turn + 1, 0, 0.0), {})
            saved: list[Saved] = []
            while not on_every_rank(bool(saved := saved or saver.complete())):
                steps["beside a save"].append(step(saver))
            saves[kind] += saved
    for saver in savers.values():
        saver.close()
    if dist.get_rank() == 0:
        seconds = {kind: [each.seconds for each in of_kind] for kind, of_kind in saves.items()}
        # The first turn of each kind is also the first to use its memory.
        medians = {kind: median(each[1:]) for kind, each in seconds.items()}
        totals = median(each.total_seconds for each in saves["asynchronous"][1:])
        result = {
            "state_bytes": sum(location_files.list_sizes(str(directory / "synchronous")).values()),
            "seconds_of_standstill": {kind: [round(each, 4) for each in of_kind] for kind, of_kind in seconds.items()},
            "asynchronous_over_synchronous": round(medians["asynchronous"] / medians["synchronous"], 4),
            "seconds_until_an_asynchronous_one_is_complete": round(totals, 2),
            "step_seconds": {name: round(median(each), 3) for name, each in steps.items()},
            "turns": TURNS,
            "ranks": RANKS,
        }
        (directory / FIGURES).write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def saver_of(kind: str, directory: Path) -> Saver:
    """Return the saver of a job that keeps one checkpoint."""
    settings = Checkpoint.model_validate({"every": 1, "keep": 1, "async": kind == "asynchronous"})
    location = str(directory / kind)
    return Saver(location, settings, None, torch.device("cpu"), dist.new_group(backend="gloo"), on_failure=lambda: None)


def on_every_rank(fact: bool) -> bool:
    """Return whether `fact` is true on all ranks, so that they run the same number of steps."""
    facts = torch.tensor(float(fact))
    dist.all_reduce(facts)
    return facts.item() == RANKS


if __name__ == "__main__":
    main()
