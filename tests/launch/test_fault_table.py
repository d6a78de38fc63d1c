"""A fault ends a run with one sentence, and nothing is tried again that cannot succeed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainway.launch.failure_causes import SECONDS_OF_A_START, Causes
from trainway.launch.program import STARTER
from trainway.launch.start_program import NOT_FOUND

# A library whose package is absent, memory as PyTorch says it, and a disk that is really full.
FAULTS = {
    "missing package": ("import trl_of_nobody.trainer", "the Python package trl_of_nobody is absent: add the package"),
    "out of memory": (
        "class OutOfMemoryError(RuntimeError): pass\\n"
        "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11')",
        "the GPU is out of memory: CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    "full disk": ("import os; os.write(os.open('/dev/full', os.O_WRONLY), b'x')", "no space is left on the disk"),
}


def started(directory: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    told = {"TRAINWAY_RUN": str(directory), "TRAINWAY_OUTPUT": str(directory / "outputs"), "PATH": os.environ["PATH"]}
    command = [sys.executable, str(STARTER), "--", *words]
    return subprocess.run(command, env={**told, **environment}, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_program_is_a_sentence_and_not_tried_again(fault: str, tmp_path: Path) -> None:
    text, why = FAULTS[fault]
    done = started(tmp_path, "python3", "-c", text.replace("\\n", "\n"))
    assert done.returncode == NOT_FOUND, done.stderr
    assert (tmp_path / "attempts/1/failure").read_text().startswith(why)
    assert f"trainway: failed on node 0: {why}" in done.stderr
    assert "ended with exit status 1)" in done.stderr


def test_an_input_that_is_absent_is_said_before_the_program_starts(tmp_path: Path) -> None:
    there, absent = {"TRAINWAY_INPUT_A": str(tmp_path)}, {"TRAINWAY_INPUT_CORPUS": "/fsx/corpus/absent"}
    done = started(tmp_path, "echo", "begun", **there, **absent)
    assert done.returncode == NOT_FOUND and "begun" not in done.stdout
    assert "the input corpus is absent: there is no /fsx/corpus/absent on the node" in done.stderr
    assert started(tmp_path, "echo", "begun", **there, TRAINWAY_INPUT_B="s3://bucket/b").stdout == "begun\n"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Failed to start Ray: Command '['ray', 'start', '--head', '--port=1']' returned non-zero exit status 1.", 1),
        ("Exception: The current node timed out during startup. This could happen because some of the raylet", 1),
        ("Exception: No node info found for head node in GCS. Did the head node or gcs start successfully?", 1),
        ("Failed to start Ray: Command '['ray', 'start', '--address', 'n1:6379']' returned non-zero exit status 1.", 0),
    ],
)
def test_a_ray_that_cannot_start_is_a_failure_although_its_exit_status_says_success(
    said: str, status: int, tmp_path: Path
) -> None:
    """As `ray symmetric-run` prints it on the first node, on another one, and there at the end of each run, too."""
    done = started(tmp_path, "python3", "-c", f"import sys; print({said!r}, file=sys.stderr)")
    assert done.returncode == status
    assert ("Ray cannot start on this node" in done.stderr) == bool(status)


def test_other_failures_are_tried_again_and_so_is_memory_after_a_while() -> None:
    causes = Causes()
    causes.read("ValueError: loss is 3")
    assert causes.sentence(1, killed_for_memory=False) == ("", False)
    assert causes.sentence(1, killed_for_memory=True)[1] and "kernel" in causes.sentence(1, killed_for_memory=True)[0]
    causes.read("[default3]:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has")
    assert causes.sentence(SECONDS_OF_A_START + 1, killed_for_memory=False) == (
        "the GPU is out of memory: CUDA out of memory. Tried to allocate 20.00 MiB",
        False,
    )
    causes.read("OSError: [Errno 28] No space left on device: '/fsx/runs/a/ckpt'")
    assert causes.sentence(9999, killed_for_memory=False) == (
        "no space is left on the disk for /fsx/runs/a/ckpt: delete files, or write to another location",
        True,
    )
