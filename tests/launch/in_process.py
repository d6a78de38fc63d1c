"""Runs `trainway` in the process of the tests, for tests whose promise is what a command says and does.

A process of its own imports the packages of a command, which takes several times as long as most commands run. A test
starts `python -m trainway.cli` if it sends signals, or if the command must end with what it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from unittest import mock

from trainway.cli import main
from trainway.parts.endings import SIGNALS

Completed = subprocess.CompletedProcess[str]


def run_trainway(*words: str, directory: Path, environment: Mapping[str, str] | None = None) -> Completed:
    """Run the command line as `python -m trainway.cli WORDS` does, in a directory, and return what it printed.

    `environment` replaces that of the tests. Programs that the command starts write to the same two files. An error
    that the command line does not handle is raised.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, ExitStack() as stack:
        stack.enter_context(_in_directory(directory))
        if environment is not None:
            stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", ["trainway", *words]))
        stack.enter_context(_signals_restored())
        stack.enter_context(_redirected("stdout", 1, output))
        stack.enter_context(_redirected("stderr", 2, errors))
        status = _status_of_main()
        stack.close()
        texts = [_text_of(each) for each in (output, errors)]
    return subprocess.CompletedProcess(["trainway", *words], status, *texts)


def _status_of_main() -> int:
    """Return the exit status that Python gives a process for the end of `main`."""
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    return 0


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def _in_directory(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _signals_restored() -> Iterator[None]:
    """Undo what `end_on_signals` does."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _redirected(name: str, descriptor: int, file: IO[bytes]) -> Iterator[None]:
    """Let this process and those that it starts write one of their two outputs to a file."""
    getattr(sys, name).flush()
    before = os.dup(descriptor)
    os.dup2(file.fileno(), descriptor)
    try:
        with open(descriptor, "w", encoding="utf-8", closefd=False) as stream, mock.patch.object(sys, name, stream):
            yield
    finally:
        os.dup2(before, descriptor)
        os.close(before)
