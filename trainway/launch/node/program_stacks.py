"""The stacks of a program that hangs: each Python process writes those of all its threads, and ends.

Python writes them at SIGABRT if the variable PYTHONFAULTHANDLER was set when it started. That is done in C, so that it
works for a process that waits in C code with Python's lock, and it requires no right to read other processes.
https://docs.python.org/3/library/faulthandler.html (read 2026-11-30)
"""

import contextlib
import os
import resource
import signal

from trainway.launch.node.process_tree import descendants
from trainway.launch.node.program_stop import handling, ranks_below

VARIABLE = "PYTHONFAULTHANDLER"


def write_stacks(pid: int) -> "set[int]":
    """Let the ranks below a process write their stacks, or all processes below this one without ranks.

    Return the processes that do.
    """
    told = set()
    for each in ranks_below(pid) or descendants():
        if handling(each, signal.SIGABRT)[0]:
            with contextlib.suppress(OSError, ValueError):
                # The memory of a rank is large, and nobody reads the copy.
                _, most = resource.prlimit(each, resource.RLIMIT_CORE)
                resource.prlimit(each, resource.RLIMIT_CORE, (0, most))
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGABRT)
                told.add(each)
    return told
