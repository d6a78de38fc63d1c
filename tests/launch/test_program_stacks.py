"""The stacks of a program that hangs: which processes write them, and what the kernel writes beside them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.launch.test_silent_programs import STEPS, ended
from tests.synthesis import ROOT
from trainway.launch.node.exit_statuses import HUNG

# It prints its limits for core dumps at SIGABRT, and ends.
HANDLES = """
import os, resource, signal, sys
def say(number, frame):
    print(*resource.getrlimit(resource.RLIMIT_CORE), flush=True)
    os._exit(0)
signal.signal(signal.SIGABRT, say)
print("ready", flush=True)
sys.stdin.read()
"""
START = f"""
import os, resource, signal, subprocess, sys
from trainway.launch.node import process_tree
from trainway.launch.node.process_tree import kill_descendants
from trainway.launch.node.program_stacks import write_stacks
from trainway.launch.node.program_stop import ProgramStop, ranks_below
started = subprocess.Popen(
    [sys.executable, "-c", {HANDLES!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (10**6, 10**6)),
)
started.stdout.readline()
"""


def alone(program: str) -> None:
    """Run a program that tells all processes below itself something. A test has processes of other tests below it."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_a_process_that_was_stopped_writes_its_stacks_too(tmp_path: Path) -> None:
    stops = "import signal\ndef stopped(): os.kill(os.getpid(), signal.SIGSTOP)\nstopped()\n"
    status, said = ended(tmp_path, f"{STEPS}{stops}")
    assert status == HUNG and "in stopped" in said


def test_the_first_rank_writes_its_stacks_although_it_has_started_the_others(tmp_path: Path) -> None:
    """Lightning starts ranks so: only the others have the variable from their start."""
    program = (
        "import os, subprocess, sys, threading\n"
        "def first(): threading.Event().wait()\ndef second(): threading.Event().wait()\n"
        "if 'LOCAL_RANK' in os.environ: print('ready', flush=True); second()\n"
        "environment = {**os.environ, 'LOCAL_RANK': '1'}\n"
        "rank = subprocess.Popen([sys.executable, 'train.py'], env=environment, stdout=subprocess.PIPE)\n"
        # Before the steps, because a hang is counted from the last of them.
        f"rank.stdout.readline()\n{STEPS}first()\n"
    )
    status, said = ended(tmp_path, program)
    assert status == HUNG and "in first" in said and "in second" in said


def test_a_launcher_that_ends_all_ranks_after_the_first_does_so_after_their_stacks(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys, threading, time\n"
        "def waits_0(): threading.Event().wait()\ndef waits_1(): threading.Event().wait()\n"
        "if 'LOCAL_RANK' in os.environ: print('ready', flush=True); globals()['waits_' + os.environ['LOCAL_RANK']]()\n"
        "ranks = [subprocess.Popen([sys.executable, 'train.py'], env={**os.environ, 'LOCAL_RANK': str(rank)},"
        " stdout=subprocess.PIPE) for rank in range(2)]\n"
        f"for rank in ranks: rank.stdout.readline()\n{STEPS}"
        "while all(rank.poll() is None for rank in ranks): time.sleep(0.001)\n"
        "for rank in ranks: rank.kill()\n"
    )
    status, said = ended(tmp_path, program)
    assert status == HUNG and "in waits_0" in said and "in waits_1" in said


def test_no_core_is_written_neither_to_a_file_nor_to_a_program() -> None:
    """The kernel gives a core to the program of `core_pattern` at any limit but 1."""
    alone(f"""{START}
assert write_stacks(os.getpid()) == {{started.pid}}
assert started.communicate()[0] == "1 1000000\\n"
""")


def test_a_process_of_another_user_is_left_out() -> None:
    """For example one that sudo started."""
    alone(f"""{START}
kill, refused = os.kill, []
def refuse(pid, number):
    refused.append(pid)
    raise PermissionError(1, "Operation not permitted")
os.kill = refuse
process_tree.time.sleep = lambda seconds: None
assert write_stacks(os.getpid()) == set()
ProgramStop(started.pid, ["python"], signal.SIGTERM, 60).tell()
kill_descendants()
kill(started.pid, signal.SIGKILL)
assert len(refused) > 2 and set(refused) == {{started.pid}}, refused
""")


def test_the_processes_of_a_node_are_listed_once_to_find_its_ranks() -> None:
    """A node with 192 processors has thousands of them, and a stop waits meanwhile."""
    alone(f"""{START}
workers = [
    subprocess.Popen(["sleep", "3600"], env={{"LOCAL_RANK": str(rank)}} if rank < 2 else {{}}) for rank in range(6)
]
found, lists = process_tree._parents(), []
process_tree._parents = lambda: lists.append(1) or found
try:
    assert ranks_below(os.getpid()) == {{worker.pid for worker in workers[:2]}}
    assert len(lists) == 1
finally:
    for worker in (*workers, started):
        worker.kill()
""")
