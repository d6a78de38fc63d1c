"""A process of the program is found and killed, even if its parent ends while the processes are listed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# The program has a parent and its child. The parent ends just before or after /proc has told of one of them.
LOOK = """
import os, subprocess, sys, time
from trainway.launch.node import process_tree
process_tree.adopt_orphans()
program = "import subprocess; c = subprocess.Popen(['sleep', '3600']); print(c.pid, flush=True); c.wait()"
parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
child = int(parent.stdout.readline())
read, calls = process_tree._stat, []

def stat(pid):
    is_before, call = sys.argv[1] == "before", int(sys.argv[3])
    which = {"parent": parent.pid, "child": child}[sys.argv[2]]
    calls.append(pid)
    told = None if is_before else read(pid)
    if pid == which and calls.count(pid) == call and parent.returncode is None:
        parent.kill()
        while read(parent.pid)[0] != "Z":
            time.sleep(0.01)
    return read(pid) if told is None else told

process_tree._stat = stat
print(process_tree.is_anything_left(), flush=True)
process_tree._stat = read
os.kill(child, 9)
while read(child)[:1] not in ([], ["Z"]):
    time.sleep(0.01)
print(process_tree.is_anything_left())
parent.kill()
"""
# The program starts a process after /proc has told of all processes, and before it is killed.
KILL = """
import os, signal, subprocess, sys, time
from trainway.launch.node import process_tree
process_tree.adopt_orphans()
program = '''
import signal, subprocess
signal.signal(signal.SIGUSR1, lambda *_: print(subprocess.Popen(["sleep", "3600"]).pid, flush=True))
print("ready", flush=True)
while True:
    signal.pause()
'''
parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
parent.stdout.readline()
kill, started = os.kill, []

def kill_late(pid, number):
    if not started:
        kill(parent.pid, signal.SIGUSR1)
        started.append(int(parent.stdout.readline()))
    kill(pid, number)
    while process_tree._stat(pid)[:1] not in ([], ["Z"]):
        time.sleep(0.01)

os.kill = kill_late
process_tree.kill_descendants()
os.kill = kill
print(process_tree.is_anything_left())
if process_tree.is_anything_left():
    kill(started[0], signal.SIGKILL)
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("process", ["parent", "child"])
@pytest.mark.parametrize("call", [1, 2])
def test_a_process_whose_parent_ends_is_found(moment: str, process: str, call: int) -> None:
    command = [sys.executable, "-c", LOOK, moment, process, str(call)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "True\nFalse\n", done.stderr


def test_a_process_that_is_started_by_one_that_is_killed_is_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILL], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "False\n", done.stderr
