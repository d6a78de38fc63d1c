"""Measure whether a slow rank of a training job is named, and whether a rank of a sound job is.

    python -m benchmarks.stragglers [--runs N] [--steps S]

Runs of the training job on 2 ranks take turns: in one, a random rank computes 15 % longer in each layer (slow_rank.py),
and in the next, no rank is slow. Each run takes S steps, and has a report after every 50 steps, as by default. The time
between two reports, by default at least a minute, is left out, so that a run has as many reports as it can.

`ratios` has a number for each report: the work of rank 1, divided by that of rank 0.
"""

import json
import multiprocessing
import os
import random
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks.record import arguments, record
from training.data.corpus import python_standard_library
from training.prepare import prepare

RANKS, SLOWER_BY, SEED = 2, 0.15, 20261129


def main() -> None:
    """Start the runs, and count those in which the right rank, another one, or none was named."""
    parser = arguments("stragglers", __doc__)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs of each kind. Default: 20")
    parser.add_argument("--steps", type=int, default=250, metavar="S", help="steps of a run. Default: 250")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    drawn = random.Random(SEED)
    slow, sound = list[dict[str, Any]](), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        prepare(python_standard_library(limit_bytes=300_000), str(root / "corpus"), vocabulary=384)
        for number in range(chosen.runs):
            rank = drawn.randrange(RANKS)
            slow.append({"slow": rank, **run(root / f"slow-{number}", root / "corpus", chosen.steps, rank)})
            sound.append(run(root / f"sound-{number}", root / "corpus", chosen.steps, None))
            right = sum(each["named"] == [each["slow"]] for each in slow)
            wrong = sum(each["named"] != [] for each in sound)
            print(
                f"slow: {right} of {len(slow)} named, sound: {wrong} of {len(sound)} named", file=sys.stderr, flush=True
            )
    figures = {
        "ranks": RANKS,
        "steps": chosen.steps,
        "slower_by": SLOWER_BY,
        "runs_of_each_kind": chosen.runs,
        "slow_runs_whose_slow_rank_alone_was_named": right,
        "sound_runs_with_a_named_rank": wrong,
        "slow": slow,
        "sound": sound,
    }
    record(figures, ["torch"], chosen.out)


def run(directory: Path, corpus: Path, steps: int, slow: int | None) -> dict[str, Any]:
    """Train, and return the `ratios` of the reports, the ranks that were `named`, and the `phases` of each."""
    directory.mkdir()
    job = {
        "name": directory.name,
        "model": "tiny",
        "variant": {"layers": 2, "hidden": 64, "heads": 2, "key_value_heads": 2, "feed_forward": 128},
        "data": {"train": str(corpus), "sequence_length": 64},
        "precision": "fp32",
        "batch": {"global": 2 * RANKS, "micro": 2},
        "steps": steps,
        "checkpoint": {"every": steps, "location": str(directory / "checkpoints")},
    }
    (directory / "job.yaml").write_text(yaml.safe_dump(job))
    processes = multiprocessing.get_context("fork")
    port = free_port()
    # Forks, because the import of PyTorch takes longer than the steps.
    ranks = [processes.Process(target=partial(rank_of_run, directory, rank, port, slow)) for rank in range(RANKS)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
        if each.exitcode:
            raise SystemExit(
                f"a rank of {directory.name} ended with {each.exitcode}: {(directory / 'log').read_text()}"
            )
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    found = [event["stragglers"] for line in lines if (event := json.loads(line))["event"] == "stragglers"]
    reports = [json.loads(line) for line in (directory / "reports").read_text().splitlines()]
    return {
        "named": sorted({each["rank"] for stragglers in found for each in stragglers}),
        "phases": sorted({each["phase"] for stragglers in found for each in stragglers}),
        "ratios": " ".join(f"{of_second / of_first:.3f}" for of_first, of_second in reports),
    }


def rank_of_run(directory: Path, rank: int, port: int, slow: int | None) -> None:
    """Train as one rank, with its output in the file `log`."""
    log = os.open(directory / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["training.train", "--config", str(directory / "job.yaml")]
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS}
    os.environ |= {name: str(value) for name, value in ranks.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TRAINWAY_RUN": str(directory)}
    os.environ["REPORTS"] = str(directory / "reports")
    if slow is not None:
        told = {"rank": slow, "kind": "computation", "part": SLOWER_BY, "steps": [1, 10**9]}
        os.environ["SLOW"] = json.dumps(told)
    from benchmarks import slow_rank

    slow_rank.main()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":
    # Imported before the forks, which then share it.
    import training.train  # noqa: F401

    main()
