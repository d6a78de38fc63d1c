"""The process of which the ranks are forks ignores signals, and a rank hears those that its agent hears."""

import subprocess
import sys

_PROGRAM = """
import signal
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
from training import warm
names = ("SIGTERM", "SIGUSR1")
print(*(signal.getsignal(getattr(signal, name)).name for name in names))
warm.hear_signals()
print(*(signal.getsignal(getattr(signal, name)).name for name in names))
"""


def test_a_rank_ignores_the_signals_that_its_agent_ignores() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["SIG_IGN SIG_IGN", "SIG_DFL SIG_IGN"]
