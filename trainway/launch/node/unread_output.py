"""Discard the output of a program after its reader has closed the pipe, as `trainway launch … | head -1` does."""

import os
from typing import IO


def discard(stream: "IO[bytes] | IO[str]") -> None:
    """Discard the buffered and all later output of a stream.

    Call this when a write fails. Otherwise, Python flushes the stream again at exit, fails, and returns status 120:
    https://docs.python.org/3/library/signal.html#note-on-sigpipe (read 2026-11-27).
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
