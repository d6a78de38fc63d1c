"""A worker of the tests forks all its emulators from one process, and starts another if that process was killed."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from emulator import running


@pytest.mark.exhaustive
def test_another_process_forks_emulators_after_the_first_was_killed() -> None:
    with running():
        command = ["pgrep", "-P", str(os.getpid()), "-f", "tests.emulator_forks"]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        os.kill(int(found.stdout), signal.SIGKILL)
    with running() as emulator:
        assert emulator.resources() == []
