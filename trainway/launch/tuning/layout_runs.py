"""Run a few steps of a training job's layouts on this machine, or write job files of them to launch elsewhere."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml

from trainway.parts.checkout import child_environment
from trainway.spec import strict_yaml
from trainway.spec.errors import usage_error

Changes = Mapping[str, Mapping[str, Any]]
"""Values for some keys of the sections of a job file, by section and key."""
STEPS_BEFORE: Final = 3
"""Steps that are not measured: they reserve memory, compile, and select kernels."""
SECONDS_OF_A_LAYOUT: Final = 900
"""Time limit of a layout, with its start and its compilation."""

SECONDS_TO_REPORT: Final = 20
"""How long the other ranks have to end after the first, before they are killed."""


def with_changes(document: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """Return the document of a job file with other values for some keys of its sections."""
    changed = copy.deepcopy(dict(document))
    for section, keys in changes.items():
        changed[section] = {**changed.get(section, {}), **keys}
    return changed


def write_job_files(file: Path, layouts: Sequence[Changes], directory: Path) -> list[Path]:
    """Write a job file for each layout into a directory, and return their paths.

    Each has a name of its own, and so has checkpoints of its own. Raises UsageError, before anything is written, if
    one of the files exists.
    """
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    files = {}
    for number, changes in enumerate(layouts, start=1):
        changed = with_changes(document, changes)
        changed["name"] = f"{document['name']}-layout-{number}"
        checkpoint = changed.get("checkpoint")
        if isinstance(checkpoint, dict) and "location" in checkpoint:
            checkpoint["location"] = f"{checkpoint['location']}-layout-{number}"
        files[directory / f"{changed['name']}.yaml"] = strict_yaml.dump(changed)
    for path in files:
        if path.exists():
            fix = f"delete {path}, or name another directory with --write"
            raise usage_error(f"{path} was not written", why="it exists", fix=fix)
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def gpus_here() -> int:
    """Return the number of this machine's NVIDIA GPUs, by nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], check=False, capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def measured_seconds(file: Path, changes: Changes, ranks: int, steps: int) -> float | str:
    """Run a layout of a job file on `ranks` devices of this machine, and return the median seconds of `steps` steps.

    Returns the reason instead if the job ends early or takes too long. The ranks are killed after the last step. A job
    that ends in order would save a checkpoint, which takes longer than the steps.
    """
    document = with_changes(yaml.safe_load(file.read_text(encoding="utf-8")), changes)
    with tempfile.TemporaryDirectory(prefix="trainway-tune-") as directory:
        run = Path(directory)
        document["steps"] = max(document["steps"], STEPS_BEFORE + steps + 1)
        document["checkpoint"] = {"every": document["steps"], "location": str(run / "checkpoints")}
        document.pop("evaluation", None)
        job = run / "job.yaml"
        job.write_text(strict_yaml.dump(document), encoding="utf-8")
        processes = [_start(job, run, rank, ranks, port) for port in [_free_port()] for rank in range(ranks)]
        try:
            return _watched(run, processes, STEPS_BEFORE + steps)
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):  # it ended early
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _start(job: Path, run: Path, rank: int, ranks: int, port: int) -> subprocess.Popen[bytes]:
    """Start a rank without torchrun, which would tell the ranks to save a checkpoint when it is ended."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    threads = max(1, (os.cpu_count() or 1) // ranks)
    set_here = {"OMP_NUM_THREADS": threads, "TRAINWAY_RUN": run, **numbers, **rendezvous}
    with (run / f"rank-{rank}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "training.train", "--config", str(job)],
            env={**os.environ, **child_environment(), **{name: str(value) for name, value in set_here.items()}},
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
        )


def _watched(run: Path, processes: Sequence[subprocess.Popen[bytes]], steps: int) -> float | str:
    deadline = time.monotonic() + SECONDS_OF_A_LAYOUT
    while len(seconds := _step_seconds(run / "metrics.jsonl")) < steps:
        if any(process.poll() is not None for process in processes):
            return _reason(run, processes)
        if time.monotonic() > deadline:
            return f"{len(seconds)} of {steps} steps in {SECONDS_OF_A_LAYOUT} seconds"
        time.sleep(0.2)
    return median(seconds[STEPS_BEFORE:steps])


def _step_seconds(events: Path) -> list[float]:
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    # The last line can be incomplete while the job writes it.
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [event["step_seconds"] for event in found if event["event"] == "step"]


def _reason(run: Path, processes: Sequence[subprocess.Popen[bytes]]) -> str:
    """Return why the ranks ended, in the words of the rank that refused the job, or else of one that raised.

    One rank of a host reports an error of the job file for all, and can be later than the others.
    """
    deadline = time.monotonic() + SECONDS_TO_REPORT
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        time.sleep(0.2)
    logs = [run / f"rank-{rank}.log" for rank in range(len(processes))]
    texts = (log.read_text(encoding="utf-8", errors="replace") for log in logs)
    words = [lines[-1].strip() for text in texts if (lines := text.strip().splitlines())]
    of_the_job = [each.partition(": ")[2] for each in words if each.startswith(str(run / "job.yaml"))]
    raised = [each for each in words if "Error: " in each]
    return [*of_the_job, *raised, *words, "no rank said why"][0]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
