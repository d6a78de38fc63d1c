"""Measure the goodput of a run whose ranks are killed at random moments, and simulate it for up to 16,384 GPUs.

    python -m benchmarks.goodput [--ranks N] [--minutes M] [--run DIRECTORY]

The training job runs twice under torchrun, on gloo ranks of this machine. In each run, single ranks are killed at
seeded random moments, and torchrun restarts all ranks. `trainway.report.goodput` divides the time of both runs by use.
The costs of the first run are the inputs of the simulator (simulated_run.py). The simulator then predicts the goodput
of the second run, from the moments of its interruptions. The result has the difference to the measured goodput. It also
has the difference for the costs of the second run itself, which is the error of the simulator alone. The first
difference includes changes of the machine's speed between the runs.

The curve has the goodput on 8 to 16,384 GPUs, eight on a node, with published rates of interruptions, and the interval
that `checkpoint.every: auto` chooses. The costs do not grow with the number of GPUs, so the curve shows only the effect
of the number of interruptions. With --run, the costs are those of an earlier run of yours, for example on GPUs.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import yaml

from benchmarks.record import arguments, record
from benchmarks.simulated_run import Costs, Interruption, interruptions, simulate
from benchmarks.turns import Spread
from training.config.checkpoint_interval import (
    INTERRUPTIONS_PER_1000_NODE_DAYS,
    SECONDS_PER_DAY,
    choose_interval,
    seconds_between_interruptions,
)
from training.config.hang_detection import HangDetection
from training.data.corpus import python_standard_library
from training.prepare import prepare
from trainway.report.events import Start, Step, read_events
from trainway.report.goodput import Goodput, goodput

EVERY, SECONDS_BETWEEN_KILLS = 10, 60.0
GPUS, GPUS_OF_A_NODE = (8, 32, 128, 512, 2048, 8192, 16_384), 8
DAYS, SEEDS, GPUS_OF_LIMITS = 10, 11, 8192
# Interruptions or failures per 1,000 node-days.
RATES = {
    # See training/config/checkpoint_interval.py.
    "Llama 3 405B, H100": INTERRUPTIONS_PER_1000_NODE_DAYS,
    # "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", https://arxiv.org/abs/2410.21680, as
    # other texts quote it (2026-11-26). The paper itself was not read.
    "RSC-1, A100": 6.5,
    "RSC-2, A100": 2.34,
}
# 7 of 419 interruptions were timeouts of NCCL's watchdog: table 5 of https://arxiv.org/abs/2407.21783 (looked up
# 2026-11-26).
HANGS = 7 / 419


def main() -> None:
    """Measure two runs, compare the second run with its simulation, and simulate runs on more GPUs."""
    parser = arguments("goodput", __doc__)
    parser.add_argument("--ranks", type=int, default=4, help="ranks on this machine. Default: 4")
    parser.add_argument("--minutes", type=float, default=6, help="minutes of each of the two runs. Default: 6")
    parser.add_argument("--run", type=Path, help="take the costs from the run in this directory. Default: measure them")
    chosen: argparse.Namespace = parser.parse_args()
    figures: dict[str, Any] = {}
    if chosen.run:
        costs = costs_of(chosen.run, [])
    else:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            prepare(python_standard_library(limit_bytes=300_000), str(root / "corpus"), vocabulary=384)
            runs = [interrupted_run(root, seed, chosen.ranks, 60 * chosen.minutes) for seed in (1, 2)]
            costs, own = (costs_of(run, kills) for run, kills in runs)
            figures["ranks"], figures["steps_between_checkpoints"] = chosen.ranks, EVERY
            figures["validation"] = validation(*runs[1], {"costs of the run before": costs, "its own costs": own})
    figures["costs"] = {name: float(f"{value:.4g}") for name, value in asdict(costs).items()}
    figures["curve"] = {name: curve(costs, rate) for name, rate in RATES.items()}
    figures[f"limits_on_{GPUS_OF_LIMITS}_gpus"] = limits(costs)
    record(figures, ["torch"], chosen.out)


def interrupted_run(root: Path, seed: int, ranks: int, seconds: float) -> tuple[Path, list[float]]:
    """Run the job for `seconds`, and kill its ranks at random moments.

    Return the directory of the run, and the times of the kills in seconds since the epoch.
    """
    directory = root / f"run-{seed}"
    directory.mkdir()
    job = {
        "name": f"goodput-{seed}",
        "model": "tiny",
        "data": {"train": str(root / "corpus"), "sequence_length": 32},
        "precision": "fp32",
        "batch": {"global": 2 * ranks, "micro": 2},
        "steps": 10**6,
        "checkpoint": {"every": EVERY, "location": str(directory / "checkpoints")},
    }
    (directory / "job.yaml").write_text(yaml.safe_dump(job))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TRAINWAY_RUN": str(directory),
    }
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [*torchrun, "--max-restarts=1000", "-m", "training.train", "--config", str(directory / "job.yaml")],
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            kills = list(kill_ranks(process, random.Random(seed), time.time() + seconds))
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        finally:
            process.kill()
    return directory, kills


def kill_ranks(torchrun: subprocess.Popen[bytes], drawn: random.Random, end: float) -> Iterator[float]:
    """Kill a rank at each random moment before `end`. Yield the time of each kill. Times are seconds since the epoch.

    Restarts do not shift the moments. If no rank lives at a moment, because torchrun restarts the ranks, the first rank
    that lives again is killed.
    """
    moment = time.time()
    while (moment := moment + drawn.expovariate(1 / SECONDS_BETWEEN_KILLS)) < end:
        time.sleep(max(0.0, moment - time.time()))
        while not (alive := ranks_of(torchrun.pid)):
            time.sleep(0.01)
        os.kill(drawn.choice(alive), signal.SIGKILL)
        yield time.time()
    time.sleep(max(0.0, end - time.time()))


def ranks_of(launcher: int) -> list[int]:
    """Return the process IDs of the processes that a launcher has started and that have not ended.

    The ranks of `training.elastic` are forks of a child of it, and are in the place of that child.
    """
    children = _children(launcher)
    helpers = [pid for pid in children if b"from multiprocessing." in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return [*(pid for pid in children if pid not in helpers), *(fork for pid in helpers for fork in _children(pid))]


def _children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "--ppid", str(parent), "-o", "pid=,stat="], capture_output=True, text=True)
    rows = (line.split() for line in listed.stdout.splitlines())
    return [int(pid) for pid, state in rows if not state.startswith("Z")]


def costs_of(run: Path, kills: Sequence[float]) -> Costs:
    """Return the mean costs of a measured run. `kills` has the times of its interruptions, in seconds since the epoch.

    Without `kills`, a restart begins at the last event before it. The program exits if the run has no restart.
    """
    events = read_events(run)
    steps = [event for event in events if isinstance(event, Step)]
    starts = [event for event in events if isinstance(event, Start)]
    restarts = []
    for number, event in enumerate(events):
        if isinstance(event, Start) and number:
            begin = event.time - event.startup_seconds
            restarts.append(begin - max((kill for kill in kills if kill < begin), default=events[number - 1].time))
    if not restarts:
        sys.exit(f"{run}: the run has no restart, so the cost of a restart is not known. Use a run that restarted.")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    writes = [line["total_seconds"] for line in lines if line["event"] == "checkpoint"]
    return Costs(
        step_seconds=fmean(step.step_seconds - step.breakdown.checkpoint - step.breakdown.data_wait for step in steps),
        data_seconds=fmean(step.breakdown.data_wait for step in steps),
        stall_seconds=sum(step.breakdown.checkpoint for step in steps) / len(writes),
        write_seconds=fmean(writes),
        detection_seconds=HangDetection().least_seconds,
        restart_seconds=fmean(restarts),
        # The time that belongs to no step passes between the start of an attempt and its first step.
        startup_seconds=fmean(start.startup_seconds - start.load_seconds for start in starts)
        + goodput(events).by_use["other"] / len(starts),
        load_seconds=fmean(start.load_seconds for start in starts if start.load_seconds),
    )


def validation(run: Path, kills: Sequence[float], costs: dict[str, Costs]) -> dict[str, Any]:
    """Return the measured goodput of a run, and the simulated goodput with its interruptions, for each of the costs."""
    events = read_events(run)
    measured, start = goodput(events), events[0]
    assert isinstance(start, Start)
    begin = start.time - start.startup_seconds
    # The report does not count an interruption before the first attempt began, so the simulation leaves it out, too.
    happened = [Interruption(kill - begin) for kill in kills if kill > begin]
    found: dict[str, Any] = {
        "interruptions": len(happened),
        "seconds": round(measured.seconds, 1),
        "measured": shares(measured.by_use, measured),
    }
    for name, of_name in costs.items():
        simulated = simulate(of_name, EVERY, measured.seconds, happened)
        share = simulated["productive"] / measured.seconds
        found[f"simulated, {name}"] = shares(simulated, measured) | {
            "difference": round(share - measured.share, 4),
            "relative_difference": round(share / measured.share - 1, 4),
        }
    return found


def shares(by_use: Any, measured: Goodput) -> dict[str, float]:
    """Return the seconds of each use as shares of those of the measured run."""
    return {use: round(seconds / measured.seconds, 4) for use, seconds in by_use.items() if seconds}


def curve(costs: Costs, rate: float) -> dict[str, Any]:
    """Return the goodput on each number of GPUs, with the interval that the job would choose."""
    return {str(gpus): on_gpus(costs, rate, gpus) for gpus in GPUS}


def on_gpus(costs: Costs, rate: float, gpus: int) -> dict[str, Any]:
    """Return the spread of the goodput over the seeds, and the median share of each use, for DAYS on so many GPUs."""
    nodes = gpus // GPUS_OF_A_NODE
    step = costs.step_seconds + costs.data_seconds
    every = choose_interval(costs.stall_seconds, costs.write_seconds, step, nodes, rate).steps
    between, seconds = seconds_between_interruptions(nodes, rate), float(DAYS * SECONDS_PER_DAY)
    runs = [simulate(costs, every, seconds, interruptions(between, HANGS, seed)) for seed in range(SEEDS)]
    return {
        "nodes": nodes,
        "hours_between_interruptions": float(f"{between / 3600:.4g}"),
        "steps_between_checkpoints": every,
        "goodput": Spread.of([run["productive"] / seconds for run in runs]).document(),
        "shares": {use: float(f"{median(run[use] for run in runs) / seconds:.3g}") for use in runs[0]},
    }


def limits(costs: Costs) -> dict[str, Any]:
    """Return what the goodput would be with each cost halved, and ten times as large, at the rate of Llama 3."""
    rate = INTERRUPTIONS_PER_1000_NODE_DAYS
    as_it_is = on_gpus(costs, rate, GPUS_OF_LIMITS)["goodput"]["median"]
    found: dict[str, Any] = {"as measured": as_it_is}
    for name, value in asdict(costs).items():
        if name in ("step_seconds", "data_seconds"):
            continue
        found[name] = {
            words: on_gpus(replace(costs, **{name: factor * value}), rate, GPUS_OF_LIMITS)["goodput"]["median"]
            for words, factor in (("halved", 0.5), ("ten times", 10))
        }
    return found


if __name__ == "__main__":
    main()
