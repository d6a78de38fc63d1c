"""Measure tokens per second on one GPU: the job and torchtitan, on the same model in the same run.

    python -m benchmarks.single_gpu --out benchmarks/results/single_gpu.json
    python -m benchmarks.single_gpu --smoke    # a tiny model on any device, to test that everything runs

All train eight layers of Llama 3 8B on one sample of 8,192 random tokens per step, without activation checkpointing,
with fp32 weights and AdamW. A loop written by hand is the bound in bf16 (bare_llama.py). A rate is the median of those
that the program itself reports after its warm-up. Each is written to the result as soon as it is known. The cells that
decide claims come first, each program has a time limit that includes compilation, and what does not fit into the time
of the whole benchmark is left out with that reason. Beside a rate
are its shares of the card's published peak by both formulas (see training/observe/flops.py; float8 is also compared
with the peak of bf16), and of the card's measured ceiling: the fastest of its square matrix products.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import yaml

from benchmarks.bare_llama import MARK
from benchmarks.matmul import ceilings
from benchmarks.one_rank import environment
from benchmarks.record import arguments, write
from training.config.arithmetic import flop_per_token
from training.config.presets import PRESETS
from training.data.shards import File, Index, Shard, write_index
from training.observe.flops import peak_flops

VOCABULARY = 128_256
STEPS, WARM_UP = 60, 20
SECONDS, WHOLE = 150, 540
"""Time limits of a program in a cell and of the whole benchmark, in seconds, compilation included."""
SIZES = (2048, 4096, 8192, 16384)
CELLS: dict[str, dict[str, Any]] = {
    "bf16, compile": {"compile": "inductor"},
    "float8 rowwise, compile": {"compile": "inductor", "float8": {"recipe": "rowwise"}},
    "float8 tensorwise, compile": {"compile": "inductor", "float8": {"recipe": "tensorwise"}},
    "bf16": {},
}
PEER = {"bf16": "bf16", "bf16, compile": "bf16_compile", "float8 rowwise, compile": "float8_rowwise_compile"}
"""Names in `torchtitan_llama.py`. Release 0.3.0 has no tensorwise recipe."""
LATE = f"the {WHOLE} seconds of the benchmark were over"
TORCHTITAN_LINE = re.compile(r"step:\s*(\d+) .*\btps:\s*([\d,]+)")


def main() -> None:
    """Measure all cells. A cell that could not be measured has a sentence instead of figures."""
    parser = arguments("single_gpu", __doc__)
    parser.add_argument("--smoke", action="store_true", help="a tiny model and few steps, on a CPU too")
    chosen = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    if not on_gpu and not chosen.smoke:
        parser.error("there is no GPU; --smoke runs a tiny model without one")
    model, length, steps, warm_up = ("tiny", 64, 4, 1) if chosen.smoke else ("8b-slice8", 8192, STEPS, WARM_UP)
    # The vocabulary of Llama 3 would be nearly all of a tiny model's work.
    vocabulary = 1024 if chosen.smoke else VOCABULARY
    # Both ends of the table, with a compiler that does not take minutes.
    cells = {name: dict(CELLS[name]) for name in (("bf16", "float8 rowwise, compile") if chosen.smoke else CELLS)}
    device = torch.device("cuda" if on_gpu else "cpu")
    ends = time.monotonic() + WHOLE
    ceiling = ceilings(device, (64, 128) if chosen.smoke else SIZES)
    result: dict[str, Any] = {
        "model": model,
        "sequence_length": length,
        "samples_of_a_step": 1,
        "card": card() if on_gpu else None,
        "matmul_tflops": ceiling,
        "cells": {},
    }
    libraries = ["torch", *(name for name in ("torchao", "torchtitan") if find_spec(name))]
    per_token = flops_per_token(model, vocabulary, length)
    with tempfile.TemporaryDirectory() as directory:
        corpus = random_corpus(Path(directory) / "corpus", length, vocabulary)
        for name, changes in cells.items():
            if chosen.smoke and "compile" in changes:
                changes["compile"] = "aot_eager"
            job = job_of(model, length, corpus, changes)
            programs: dict[str, Callable[[], float | str]] = {
                "trainway": lambda job=job: ours(job, steps, warm_up, Path(directory), ends),  # type: ignore[misc]
                "torchtitan": lambda name=name: peer(
                    name, length, on_gpu, chosen.smoke, steps, warm_up, directory, ends
                ),  # type: ignore[misc]
                "bare": lambda changes=changes: bare(  # type: ignore[misc]
                    model, length, vocabulary, changes, steps, warm_up, Path(directory), ends
                ),
            }
            rates: dict[str, float | str] = dict.fromkeys(programs, "not measured yet")
            for program, measure in programs.items():
                late = time.monotonic() > ends
                rates[program] = LATE if late else rate_of(measure)
                result["cells"][name] = figures(rates, per_token, device, ceiling["bf16"])
                text = write(result, libraries, chosen.out)
    print(text)


def flops_per_token(model: str, vocabulary: int, length: int) -> tuple[float, float]:
    """Return the operations of a preset model per token, with all of the attention and with causal attention only.

    `length` is the number of tokens of a sample.
    """
    full, causal = (flop_per_token(PRESETS[model], vocabulary, length, causal) for causal in (False, True))
    return full, causal


def figures(
    rates: dict[str, float | str],
    per_token: tuple[float, float],
    device: torch.device,
    ceiling: dict[str, float] | str,
) -> dict[str, Any]:
    """Return the figures that follow from the rates of a cell, or None for those that do not apply.

    `rates` are tokens per second by program, or the reason why there is none. `per_token` is the result of
    `flops_per_token`.
    """
    peak = peak_flops(device, "bf16")
    fastest = max(ceiling.values()) * 1e12 if isinstance(ceiling, dict) and device.type == "cuda" else None
    cell: dict[str, Any] = {}
    for name, rate in rates.items():
        if isinstance(rate, str):
            cell[name] = {"tokens_per_second": None, "why": rate}
            continue
        flops, causal = (rate * operations for operations in per_token)
        cell[name] = {
            "tokens_per_second": round(rate, 1),
            "mfu": round(flops / peak, 4) if peak else None,
            "mfu_causal": round(causal / peak, 4) if peak else None,
            "causal_share_of_bf16_ceiling": round(causal / fastest, 4) if fastest else None,
        }
    for other in ("torchtitan", "bare"):
        numbers = [rate for rate in (rates["trainway"], rates[other]) if not isinstance(rate, str)]
        cell[f"ours_over_{other}"] = round(numbers[0] / numbers[1], 3) if len(numbers) == 2 else None
    return cell


def rate_of(measure: Callable[[], float | str]) -> float | str:
    """Return the tokens per second, or the reason why there are none."""
    try:
        return measure()
    except RuntimeError as error:
        return str(error)


def ours(job: dict[str, Any], steps: int, warm_up: int, directory: Path, ends: float) -> float:
    """Return the job's own rate."""
    run = Path(tempfile.mkdtemp(dir=directory))
    (run / "job.yaml").write_text(yaml.safe_dump(job | {"checkpoint": {"every": 10**6, "location": str(run)}}))
    events = run / "metrics.jsonl"

    def rates() -> list[float]:
        lines = events.read_text().splitlines() if events.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [event["tokens_per_second"] for event in found if event["event"] == "step"]

    command = ["-m", "training.train", "--config", str(run / "job.yaml")]
    return watched(command, run, rates, steps, warm_up, ends, TRAINWAY_RUN=str(run))


def bare(
    model: str,
    length: int,
    vocabulary: int,
    changes: dict[str, Any],
    steps: int,
    warm_up: int,
    directory: Path,
    ends: float,
) -> float | str:
    """Return the rate of the loop written by hand, or why there is none."""
    if "float8" in changes:
        return "the loop written by hand has bf16 only"
    run = Path(tempfile.mkdtemp(dir=directory))

    def rates() -> list[float]:
        lines = (run / "output").read_text().splitlines() if (run / "output").exists() else []
        # A line for every five steps, which represents all of them.
        return [float(line.removeprefix(MARK)) for line in lines if line.startswith(MARK) for _ in range(5)]

    command = ["-m", "benchmarks.bare_llama", "--model", model, "--length", str(length)]
    command += ["--vocabulary", str(vocabulary), *(["--compile", changes["compile"]] if "compile" in changes else [])]
    return watched(command, run, rates, steps, warm_up, ends)


def peer(
    name: str, length: int, on_gpu: bool, smoke: bool, steps: int, warm_up: int, directory: str, ends: float
) -> float | str:
    """torchtitan's own rate, with the first of its ways to run that does, or why there is none."""
    if not on_gpu:
        return "torchtitan cannot run on a CPU"
    if smoke:
        return "torchtitan's model is the whole one; --smoke leaves it out"
    if not find_spec("torchtitan"):
        return "torchtitan is not installed: pip install trainway[single-gpu]"
    commands = commands_of_peer(name, version("torchtitan"), length)
    if not commands:
        return f"torchtitan {version('torchtitan')} has no such recipe"
    reasons = []
    for command, folder in commands:
        run = Path(tempfile.mkdtemp(dir=directory))

        def rates(run: Path = run) -> list[float]:
            log = (run / "output").read_text() if (run / "output").exists() else ""
            lines = [float(rate.replace(",", "")) for _, rate in TORCHTITAN_LINE.findall(log)]
            # A line for the first step, and then one for every five steps: each represents all of them.
            return [rate for rate in lines[1:] for _ in range(5)]

        rate = rate_of(lambda: watched([*command, folder, str(run)], run, rates, steps, warm_up, ends))  # noqa: B023
        if not isinstance(rate, str):
            return rate
        reasons.append(rate)
    return "; ".join(reasons)


def commands_of_peer(name: str, release: str, length: int) -> list[tuple[list[str], str]]:
    """Return the ways to run torchtitan for a cell, the default first, each with its option for a directory.

    Empty if that release has no such recipe.
    """
    if release.startswith("0.2."):
        words = ["-m", "benchmarks.torchtitan_0_2", "--length", str(length)]
        words += ["--compile"] if "compile" in CELLS[name] else []
        words += ["--float8", CELLS[name]["float8"]["recipe"]] if "float8" in CELLS[name] else []
        return [(words, "--folder")]
    if name not in PEER:
        return []
    words = ["-m", "torchtitan.train", "--module", "benchmarks.torchtitan_llama", "--config", PEER[name]]
    backends = ("spmd_types", "partial_dtensor")
    return [([*words, "--parallelism.spmd_backend", backend], "--dump_folder") for backend in backends]


def watched(
    command: list[str], run: Path, rates: Callable[[], list[float]], steps: int, warm_up: int, ends: float, **more: str
) -> float:
    """Start a program, end it after `steps` reported steps, and return the median rate of those after `warm_up`.

    It is also ended at `ends`, on the clock of time.monotonic, or after its time limit.

    Raises:
        RuntimeError: the program ended by itself, or took too long. The message is the last line that it printed.
    """
    with (run / "output").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=environment() | {"PYTHONPATH": str(Path.cwd())} | more,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = min(time.monotonic() + SECONDS, ends)
            while len(found := rates()) < steps:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{len(found)} of {steps} steps when its time was over")
                if process.poll() is not None:
                    lines = [line for line in (run / "output").read_text().splitlines() if "Error" in line]
                    raise RuntimeError(lines[-1].strip() if lines else f"ended with status {process.poll()}")
                time.sleep(0.2)
        finally:
            # Kill it at once, because a stop by signal would write a checkpoint of 34 GB.
            process.kill()
            process.wait()
    return median(found[warm_up:steps])


def job_of(model: str, length: int, corpus: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the document of the job file, without its checkpoints."""
    return {
        "name": "single-gpu",
        "model": model,
        "data": {"train": str(corpus), "sequence_length": length},
        "precision": "bf16",
        "batch": {"global": 1, "micro": 1},
        "steps": 10**6,
        # The logits of 8,192 tokens take as much memory in fp32 as four layers. torchtitan computes them in chunks as
        # well.
        "memory": {"loss_chunks": 8},
        **changes,
    }


def random_corpus(directory: Path, length: int, vocabulary: int) -> Path:
    """Write 64 samples of `length` random tokens below `vocabulary` as one shard, and return `directory`."""
    directory.mkdir()
    tokens = np.random.default_rng(0).integers(0, vocabulary, 64 * length + 1, dtype=np.uint32)
    (directory / "train-0.bin").write_bytes(tokens.tobytes())
    digest = hashlib.sha256(tokens.tobytes()).hexdigest()
    shard = Shard(name="train-0.bin", bytes=tokens.nbytes, sha256=digest, tokens=len(tokens), documents=1)
    nothing = File(name="tokenizer.json", bytes=0, sha256="")
    index = Index(
        dtype="uint32",
        vocabulary=vocabulary,
        end_of_text=0,
        tokenizer=nothing,
        recipe="",
        source="random",
        shards=(shard,),
    )
    write_index(str(directory), index)
    return directory


def card() -> dict[str, str]:
    """Return the GPU's name, driver, and limits, from nvidia-smi."""
    keys = ("name", "driver_version", "power.limit", "clocks.max.sm")
    query = ["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader", "--id=0"]
    values = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    return dict(zip(keys, values, strict=True)) | {"cuda": str(torch.version.cuda)}


if __name__ == "__main__":
    main()
