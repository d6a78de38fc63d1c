"""The first process of a container, which passes signals on to its child, and reaps orphans.

The kernel makes the first process of a PID namespace the parent of processes that lose theirs:
https://man7.org/linux/man-pages/man7/pid_namespaces.7.html (read 2026-11-29)
"""

import os
import signal
import sys

from trainway.launch.node.passed_signals import PASSED_ON, PassedSignals


def continue_as_child() -> PassedSignals:
    """Continue in a child of the first process. Return the signals that arrive from now on.

    Any other process continues as it is.

    The first process stays, and ends with the exit status of the child. It reaps what other processes leave behind. The
    child waits for its own children only, so it is still told how they end.
    """
    if os.getpid() != 1:
        return PassedSignals()
    # A signal that arrives now waits for the handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    child = os.fork()
    if child:
        for number in PASSED_ON:
            signal.signal(number, lambda number, _frame: os.kill(child, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        sys.exit(_status_of(child))
    signals = PassedSignals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    return signals


def _status_of(child: int) -> int:
    """Wait for the end of a child, and return its exit status, or 128 and the number of the signal that ended it."""
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
