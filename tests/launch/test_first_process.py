"""The first process of a container passes signals on, reaps orphans, and ends as the program does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.nested_signals import handles_nested_signals
from trainway.launch.node.process_tree import children_of

ROOT = Path(__file__).parents[2]
# The first process of a PID namespace, which continues in a child and then becomes the program.
FIRST = """
import os, sys
from trainway.launch.node.first_process import continue_as_child
continue_as_child()
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
Start = Callable[[str], "tuple[subprocess.Popen[str], int]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program below the first process of a container. Return that of `unshare`, and the first process' ID."""
    if os.geteuid():
        pytest.skip("only root makes a PID namespace")
    started = []

    def begin(program: str) -> tuple[subprocess.Popen[str], int]:
        within = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        process = subprocess.Popen(
            [*within, sys.executable, "-c", FIRST, program], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        # A program that ends at once may have ended by now.
        (first,) = children_of(process.pid) or [0]
        return process, first

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_it_ends_as_the_program_does(end: str, status: int, start: Start) -> None:
    process, _ = start(f"import os, sys; print('begun', flush=True); {end}")
    assert process.wait(timeout=60) == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_the_program_gets_each_signal_once(number: signal.Signals, start: Start) -> None:
    process, first = start(
        f"import signal, time; heard = []; signal.signal({number:d}, lambda *_: heard.append(1))\n"
        "print('begun', flush=True)\nwhile not heard: time.sleep(0.1)\nprint(len(heard), flush=True)"
    )
    os.kill(first, number)
    assert process.communicate(timeout=60)[0] == "1\n"


def test_orphans_are_reaped(start: Start) -> None:
    """The program ends when no process of the container is a zombie."""
    process, _ = start(
        "import os, subprocess, time; subprocess.run(['sh', '-c', 'sleep 0.2 & exit']); print('begun', flush=True)\n"
        "def zombies():\n"
        "    states = [open(f'/proc/{each}/stat').read().rpartition(')')[2].split()[0]\n"
        "              for each in os.listdir('/proc') if each.isdigit()]\n"
        "    return [each for each in states if each == 'Z'] or len(states) > 2\n"
        "while zombies(): time.sleep(0.1)\n"
    )
    wait_for("no orphan is left", lambda: process.poll() is not None)
    assert process.returncode == 0


def test_a_signal_between_the_fork_and_the_handlers_is_not_lost() -> None:
    if os.geteuid():
        pytest.skip("only root makes a PID namespace")
    script = (
        "import os, time; from trainway.launch.node import first_process\n"
        "fork = os.fork\n"
        "def told():\n"
        "    child = fork()\n"
        "    os.kill(os.getpid(), 15) if child else time.sleep(1)\n"
        "    return child\n"
        "os.fork = told\n"
        "signals = first_process.continue_as_child(); signals.wait(60); print(signals.arrived, flush=True)"
    )
    within = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    done = subprocess.run(
        [*within, sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_elsewhere_nothing_is_forked() -> None:
    script = "import os; from trainway.launch.node.first_process import continue_as_child as c; c(); print(os.getpid())"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.communicate(timeout=60)[0] == f"{process.pid}\n"


def test_a_second_signal_within_the_handler_of_the_first_one_blocks_no_node() -> None:
    setup = "from trainway.launch.node.passed_signals import PassedSignals\nsignals = PassedSignals()\n"
    assert handles_nested_signals(setup)
