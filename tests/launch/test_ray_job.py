"""A driver of a Ray job that fails for good stops its job, so that KubeRay does not start it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.program.program import STARTER

# As Ray 2.60 tells the driver of a job. By hand, on 2026-11-24, Ray 2.60 itself took the stop: `ray job submit` ended
# with 0 and said that the job was stopped, and that of a driver that ended with 3 failed as before.
DRIVER = {"RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": {}, "metadata": {"job_submission_id": "first-x"}})}
STOP = "job stop --no-wait first-x http://127.0.0.1:8265"


def driver(directory: Path, *command: str, ray: str = "exit 0", **environment: str) -> tuple[int, list[str], str]:
    """Return the exit status of the starter, what it asked Ray for, and its errors. `ray` is Ray's command here."""
    (bin_ := directory / "bin").mkdir()
    asked = directory / "asked"
    (bin_ / "ray").write_text(f'#!/bin/sh\necho "$@" "$RAY_API_SERVER_ADDRESS" >> {asked}\n{ray}\n')
    (bin_ / "ray").chmod(0o755)
    told = {"TRAINWAY_RUN": str(directory), "TRAINWAY_OUTPUT": str(directory), "PATH": f"{bin_}:{os.environ['PATH']}"}
    words = [sys.executable, str(STARTER), "--", *command]
    done = subprocess.run(words, env={**told, **environment}, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, asked.read_text().splitlines() if asked.exists() else [], done.stderr


def test_a_driver_that_cannot_start_stops_its_job(tmp_path: Path) -> None:
    assert driver(tmp_path, "./absent", **DRIVER)[:2] == (NOT_FOUND, [STOP])


def test_ray_may_end_its_own_command_with_the_driver(tmp_path: Path) -> None:
    status, asked, errors = driver(tmp_path, "./absent", ray="kill -TERM $$", **DRIVER)
    assert (status, asked) == (NOT_FOUND, [STOP]) and "cannot be stopped" not in errors


@pytest.mark.parametrize("command", [("true",), ("sh", "-c", "exit 3")])
def test_a_driver_that_is_done_or_may_run_again_stops_nothing(command: tuple[str, ...], tmp_path: Path) -> None:
    assert driver(tmp_path, *command, **DRIVER)[1] == []


def test_a_program_outside_of_a_ray_job_asks_ray_for_nothing(tmp_path: Path) -> None:
    assert driver(tmp_path, "./absent")[1] == []


def test_a_ray_that_does_not_stop_the_job_is_told(tmp_path: Path) -> None:
    status, _, errors = driver(tmp_path, "./absent", ray="echo no such job >&2; exit 1", **DRIVER)
    assert status == NOT_FOUND
    assert "the Ray job cannot be stopped, and will start again: no such job" in errors
