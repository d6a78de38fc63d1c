"""A line that says what a command waits for, once that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_BEFORE = 2.0
"""A command that answers sooner needs no such line."""
_SECONDS_BETWEEN = 1.0
_CLEAR = "\r\x1b[K"


@contextmanager
def working(what: str, *, before: float | None = None) -> Iterator[None]:
    """Show `what` and the seconds so far on the terminal while the body runs.

    The line appears after `before` seconds, by default SECONDS_BEFORE.

    Nothing is written if the standard error is no terminal. The body writes nothing to it.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    teller = threading.Thread(
        target=_tell, args=(what, over, SECONDS_BEFORE if before is None else before), daemon=True
    )
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(what: str, over: threading.Event, before: float) -> None:
    began, shown = time.monotonic(), False
    wait = before
    while not over.wait(wait):
        print(f"{_CLEAR}{what} … {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
        shown, wait = True, _SECONDS_BETWEEN
    if shown:
        print(_CLEAR, end="", file=sys.stderr, flush=True)
