"""The probe really runs, as a job of two processes on this machine: what it prints is what the checks read."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from trainway.launch.program.rank_launchers import one_node
from trainway.spec.facts.catalogue import load_catalogue
from trainway.verify import Expected, Status, facts_of_log, probe_command, probe_environment, run_checks
from trainway.verify.probe_job import probe_source


@pytest.mark.exhaustive
def test_two_processes_prove_this_machine(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        **probe_environment(PurePosixPath(tmp_path), max_bytes=2 * 2**20),
        **one_node(2, max_restarts=0),
        "TRAINWAY_PROBE_FILE_MIB": "2",
        "OMP_NUM_THREADS": "1",
        # torchrun and python3 of this environment, as the image has its own.
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ran = subprocess.run(probe_command(), env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]

    facts = facts_of_log(ran.stdout, Expected(1, load_catalogue()["m7i.large"]))
    (node,) = facts.nodes
    assert node.node == os.uname().nodename
    assert node.clock_offset_seconds == 0
    assert node.file_system is not None
    assert node.file_system.error is None
    assert facts.sweep is not None
    assert set(facts.sweep.busbw) == {2**20, 2**21}
    assert facts.sweep.wrong == 0
    assert not list(tmp_path.iterdir())
    assert not [each for each in run_checks(facts) if each.status is Status.FAILED]


def test_a_directory_that_cannot_be_written_is_told_and_not_raised() -> None:
    environment = {**os.environ, "TRAINWAY_PROBE_DIRECTORY": "/nonexistent", "TRAINWAY_PROBE_FILE_MIB": "1"}
    command = [sys.executable, "-c", probe_source()]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    (node,) = facts_of_log(ran.stdout, Expected(1, load_catalogue()["m7i.large"])).nodes
    assert node.file_system is not None
    assert "No such file or directory" in (node.file_system.error or "")


def test_the_probe_needs_nothing_of_this_project() -> None:
    imported = {
        name.name if isinstance(each, ast.Import) else each.module
        for each in ast.walk(ast.parse(probe_source()))
        if isinstance(each, ast.Import | ast.ImportFrom)
        for name in each.names
    }
    assert {str(name).partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_the_program_fits_into_an_argument() -> None:
    # MAX_ARG_STRLEN of Linux is 128 KiB for one argument.
    assert len(probe_source().encode()) < 128 * 1024
