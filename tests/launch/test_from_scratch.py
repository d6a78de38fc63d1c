"""`trainway resume --from-scratch` lets a launch begin anew, on every target and for every program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tests.launch.conftest import write_job
from training.hosts import run_record
from trainway.launch.job_file.programs import load_program, program_of_command
from trainway.launch.local.run import render_local
from trainway.launch.program.program import FROM_SCRATCH


def test_the_launcher_and_the_job_name_one_variable() -> None:
    assert run_record.FROM_SCRATCH == FROM_SCRATCH


@pytest.mark.parametrize("is_bundled", [True, False])
@pytest.mark.parametrize("launch", ["2026-11-29T18:00:00+00:00", None])
def test_only_a_launch_that_may_begin_anew_is_told_so(is_bundled: bool, launch: str | None, tmp_path: Path) -> None:
    data = {"train": str(tmp_path)}
    written = write_job(tmp_path, data=data, checkpoint={"location": str(tmp_path / "ckpt")})
    program = load_program(written) if is_bundled else program_of_command(["true"], tmp_path)
    program = replace(program, from_scratch=launch)
    on_nodes = program.variables("first", PurePosixPath("/fsx/runs/first"), {})
    here = render_local(program, tmp_path / "run", processes=1, hand_off=None).environment
    assert [each.get(FROM_SCRATCH) for each in (on_nodes, here)] == [launch, launch]
