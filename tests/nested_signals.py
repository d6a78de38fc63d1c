"""A second signal that arrives within the handler of the first one, at each of its lines."""

from __future__ import annotations

import subprocess
import sys

from tests.synthesis import ROOT

_TRACES = """
import os, signal, sys
sent = []
def at_each_line(frame, event, argument):
    if sent is not None and len(sent) < 20 and frame.f_code.co_filename != "<string>":
        sent.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
    return at_each_line
sys.settrace(at_each_line)
os.kill(os.getpid(), signal.SIGTERM)
sys.settrace(None)
assert len(sent) > 1, "the handler has lines"
print("continues", flush=True)
os._exit(0)
"""


def handles_nested_signals(setup: str) -> bool:
    """Return whether a process whose handler of SIGTERM `setup` installs continues after such signals.

    A handler that waits for a lock that it holds itself never ends.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", setup + _TRACES], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return False
    return done.stdout == "continues\n"
