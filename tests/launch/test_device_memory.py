"""A job that needs more memory than its GPUs have is told so before it is submitted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import load_job
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import Program
from trainway.launch.starting.job_checks import check_memory, memory_line
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff

CATALOGUE = load_catalogue()


def large(directory: Path, length: int = 8192, **changes: Any) -> Program:
    data, batch = {"train": "fsx:/corpus/web", "sequence_length": length}, {"global": 16, "micro": 1}
    return load_job(directory, model="8b", precision="bf16", **{"data": data, "batch": batch, **changes})


def check(program: Program, hand_off: HandOff) -> None:
    check_memory(program, allocate(program, hand_off, CATALOGUE), CATALOGUE)


def test_what_cannot_fit_is_refused_with_the_keys_that_help(hand_off: HandOff, tmp_path: Path) -> None:
    program = large(tmp_path, batch={"global": 16, "micro": 2})
    with pytest.raises(UsageError) as said:
        check(program, hand_off)
    assert "GiB on each GPU of p5.48xlarge" in str(said.value)
    assert "an H100 has 80 GiB, of which CUDA and NCCL take about 4" in str(said.value)
    assert "with `memory: {activation_checkpointing: selective, loss_chunks: 8}` in the job file" in str(said.value)


def test_what_may_not_fit_is_launched_with_a_warning(
    hand_off: HandOff, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(large(tmp_path), hand_off)
    assert capsys.readouterr().err == ""
    check(large(tmp_path, length=6144, memory={"gradient_accumulation": "unsharded"}), hand_off)
    said = capsys.readouterr().err
    assert said.startswith("warning: ") and "activation_checkpointing: selective" in said


def test_what_fits_and_what_nobody_knows_is_launched_without_a_word(
    hand_off: HandOff, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(load_job(tmp_path, batch={"global": 8, "micro": 1}), hand_off)
    check(Program(name="theirs", text="", nodes=1, command=("true",)), hand_off)
    assert capsys.readouterr().err == ""


def test_what_a_rank_needs_is_one_line_by_kind_that_adds_up(hand_off: HandOff, tmp_path: Path) -> None:
    program = large(tmp_path)
    line = memory_line(program, allocate(program, hand_off, CATALOGUE), CATALOGUE)
    assert line is not None
    said = re.match(r"(\S+) needs about ([\d.]+) of 80 GiB on each H100 of p5.48xlarge: (.*); CUDA and NCCL", line)
    assert said is not None, line
    kinds = {kind: float(gib) for kind, gib in (each.split(" ") for each in said[3].split(", "))}
    assert next(iter(kinds)) == "activations" and {"weights", "gradients", "optimizer", "logits"} < set(kinds)
    assert sum(kinds.values()) == pytest.approx(float(said[2]), abs=0.1 * len(kinds))


def test_a_job_on_the_cpu_needs_nothing_of_its_gpus(hand_off: HandOff, tmp_path: Path) -> None:
    program = load_job(tmp_path, batch={"global": 8, "micro": 1}, device="cpu")
    assert memory_line(program, allocate(program, hand_off, CATALOGUE), CATALOGUE) is None


def test_nothing_is_said_of_a_program_that_nobody_knows(hand_off: HandOff) -> None:
    program = Program(name="theirs", text="", nodes=1, command=("true",))
    assert memory_line(program, allocate(program, hand_off, CATALOGUE), CATALOGUE) is None
