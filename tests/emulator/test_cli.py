"""`trainway emulator`: started in one command, used in the next, stopped in a third."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.representatives import with_representatives

Emulator = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "trainway.cli", "emulator", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    yield run
    run("stop")


@pytest.mark.parametrize("port", with_representatives(["-1", "65536", "99999"], ["65536"]))
def test_a_port_that_no_machine_has_is_refused(port: str, emulator: Emulator) -> None:
    started = emulator("start", "--port", port)
    assert (started.returncode, started.stdout) == (2, "")
    assert "than or equal to" in started.stderr
    assert emulator("status").returncode == 1


def test_start_status_env_stop(emulator: Emulator) -> None:
    assert emulator("status").returncode == 1

    started = emulator("start")
    assert started.returncode == 0, started.stderr
    assert "http://localhost:" in started.stdout

    status = emulator("status")
    assert (status.returncode, "0 resources" in status.stdout) == (0, True)

    again = emulator("start")
    assert again.returncode == 2
    assert "runs already" in again.stderr and "Traceback" not in again.stderr

    environment = emulator("env").stdout
    assert "export AWS_ENDPOINT_URL=http://localhost:" in environment
    assert "export AWS_EC2_METADATA_DISABLED=true" in environment

    assert "stopped" in emulator("stop").stdout
    assert "no emulator was running" in emulator("stop").stdout
    nothing = emulator("env")
    assert nothing.returncode == 2
    assert "trainway emulator start" in nothing.stderr
