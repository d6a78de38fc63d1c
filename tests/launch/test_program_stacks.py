"""The stacks of a program that hangs: which processes write them, and what the kernel writes beside them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.test_silent_programs import STEPS, ended
from trainway.launch.node import process_tree
from trainway.launch.node.exit_statuses import HUNG
from trainway.launch.node.process_tree import kill_descendants
from trainway.launch.node.program_stacks import write_stacks
from trainway.launch.node.program_stop import ProgramStop, ranks_below

HANDLES = (
    "import os, resource, signal, sys\n"
    "def say(number, frame):\n    print(*resource.getrlimit(resource.RLIMIT_CORE), flush=True)\n    os._exit(0)\n"
    "signal.signal(signal.SIGABRT, say)\nprint('ready', flush=True)\nsys.stdin.read()\n"
)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """Yield a process that prints its limits for core dumps at SIGABRT, and ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HANDLES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (10**6, 10**6)),
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield running
        running.kill()


def test_a_process_that_was_stopped_writes_its_stacks_too(tmp_path: Path) -> None:
    stops = "import signal\ndef stopped(): os.kill(os.getpid(), signal.SIGSTOP)\nstopped()\n"
    status, said = ended(tmp_path, f"{STEPS}{stops}")
    assert status == HUNG and "in stopped" in said


def test_the_first_rank_writes_its_stacks_although_it_has_started_the_others(tmp_path: Path) -> None:
    """Lightning starts ranks so: only the others have the variable from their start."""
    program = (
        f"{STEPS}import subprocess\n"
        "def first(): threading.Event().wait()\ndef second(): threading.Event().wait()\n"
        "if 'LOCAL_RANK' in os.environ: second()\n"
        "subprocess.Popen([sys.executable, 'train.py'], env={**os.environ, 'LOCAL_RANK': '1'})\nfirst()\n"
    )
    status, said = ended(tmp_path, program)
    assert status == HUNG and "in first" in said and "in second" in said


def test_no_core_is_written_neither_to_a_file_nor_to_a_program(process: subprocess.Popen[str]) -> None:
    """The kernel gives a core to the program of `core_pattern` at any limit but 1."""
    assert process.pid in write_stacks(os.getpid())
    assert process.communicate()[0] == "1 1000000\n"


def test_a_process_of_another_user_is_left_out(process: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For example one that sudo started."""
    refused = []

    def refuse(pid: int, _number: int) -> None:
        refused.append(pid)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.kill", refuse)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert write_stacks(os.getpid()) == set()
    ProgramStop(process.pid, ["python"], signal.SIGTERM, 60).tell()
    kill_descendants()
    assert len(refused) > 2 and set(refused) == {process.pid}, "all have tried"


def test_the_processes_of_a_node_are_listed_once_to_find_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with 192 processors has thousands of them, and a stop waits meanwhile."""
    lists = 0

    def count() -> dict[int, int]:
        nonlocal lists
        lists += 1
        return found

    workers = [
        subprocess.Popen(["sleep", "3600"], env={"LOCAL_RANK": str(rank)} if rank < 2 else {}) for rank in range(6)
    ]
    found = process_tree._parents()
    monkeypatch.setattr(process_tree, "_parents", count)
    try:
        assert ranks_below(os.getpid()) == {worker.pid for worker in workers[:2]}
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert lists == 1
