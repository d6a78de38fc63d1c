"""The benchmarks run, and what is claimed is what they found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.claims import BETWEEN, CLAIMS, README, table
from benchmarks.record import command, write
from training.config.presets import PRESETS

ROOT = Path(__file__).parents[2]

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def test_the_table_has_the_numbers_of_the_results() -> None:
    found = BETWEEN.search(README.read_text(encoding="utf-8"))
    assert found
    assert found[0] == table(), "run `python -m benchmarks.claims`"


def test_every_claim_has_a_benchmark_and_every_result_a_claim() -> None:
    for claim in CLAIMS:
        assert (ROOT / "benchmarks" / f"{claim.benchmark}.py").exists()
    assert {path.stem for path in RESULTS} <= {claim.benchmark for claim in CLAIMS}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_how_to_get_it_again(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result.keys() >= {"command", "date", "processor", "processors", "load_average", "versions", "figures"}
    assert "--out" not in result["command"] and str(ROOT) not in result["command"]
    assert result["command"].startswith(f"python -m benchmarks.{path.stem}")
    assert result["versions"].keys() > {"python"}


def test_the_loop_written_by_hand_has_the_weights_of_the_job_s_model() -> None:
    import torch

    from benchmarks.bare_llama import Llama
    from benchmarks.single_gpu import VOCABULARY
    from training.model.decoder import Decoder

    with torch.device("meta"):
        ours, bare = Decoder(PRESETS["8b-slice8"], VOCABULARY), Llama(PRESETS["8b-slice8"], VOCABULARY)
    assert sum(each.numel() for each in bare.parameters()) == sum(each.numel() for each in ours.parameters())


def test_a_result_in_parts_is_always_whole(tmp_path: Path) -> None:
    out = tmp_path / "part.json"
    for cells in (1, 2):
        write({"cells": cells}, ["torch"], out)
        assert json.loads(out.read_text())["figures"] == {"cells": cells}
    assert list(tmp_path.iterdir()) == [out]


def test_each_release_of_torchtitan_has_commands_for_its_recipes() -> None:
    from benchmarks.single_gpu import commands_of_peer

    ((words, folder),) = commands_of_peer("float8 tensorwise, compile", "0.2.2", 8192)
    assert words[2:] == ["--length", "8192", "--compile", "--float8", "tensorwise"]
    assert folder == "--folder"
    assert commands_of_peer("float8 tensorwise, compile", "0.3.0", 8192) == []
    newer = commands_of_peer("bf16", "0.3.0", 8192)
    assert [words[-1] for words, _ in newer] == ["spmd_types", "partial_dtensor"]


@pytest.mark.exhaustive
def test_the_gpu_benchmark_runs_without_a_gpu_and_guesses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "single_gpu.json"
    command = [sys.executable, "-m", "benchmarks.single_gpu", "--smoke", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=1800)
    figures = json.loads(out.read_text())["figures"]
    assert figures["card"] is None
    assert figures["matmul_tflops"]["bf16"].keys() == {"64", "128"}
    assert figures["cells"].keys() == {"bf16", "float8 rowwise, compile"}
    assert figures["cells"]["bf16"]["bare"]["tokens_per_second"] > 0
    assert figures["cells"]["bf16"]["ours_over_bare"] > 0
    assert figures["cells"]["float8 rowwise, compile"]["bare"]["why"] == "the loop written by hand has bf16 only"
    for cell in figures["cells"].values():
        assert cell["trainway"]["tokens_per_second"] > 0
        # A CPU has no published peak, and nobody is beside us there.
        assert cell["trainway"]["mfu"] is None
        assert cell["torchtitan"] == {"tokens_per_second": None, "why": "torchtitan cannot run on a CPU"}
        assert cell["ours_over_torchtitan"] is None


@pytest.mark.parametrize("out", [["--out", "/here/result.json"], ["--out=/here/result.json"], []])
def test_the_command_of_a_result_has_no_path_of_this_machine(out: list[str]) -> None:
    words = ["/here/benchmarks/recovery.py", "--ranks", "4", *out, "--rounds=2"]
    assert command(words) == "python -m benchmarks.recovery --ranks 4 --rounds=2"


def test_a_benchmark_that_is_told_to_end_ends_what_it_started() -> None:
    program = """
import time
from benchmarks.record import arguments

arguments("one", None)
try:
    print("started", flush=True)
    time.sleep(600)
finally:
    print("ended", flush=True)
"""
    benchmark = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=-1, stderr=-1, text=True)
    assert benchmark.stdout is not None and benchmark.stdout.readline() == "started\n"
    benchmark.terminate()
    output, _ = benchmark.communicate(timeout=60)
    assert output == "ended\n"
