"""The stages of a long command: one line each on the terminal, and everything that they print in a log file."""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from trainway.parts.endings import run_to_end
from trainway.spec.errors import usage_error

# Lines of the log that an error shows.
LAST_LINES = 15


class Stages:
    """Prints one line per stage with the stage's time in seconds, and keeps the output of its commands in `log`."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._file: TextIO = log.open("w", encoding="utf-8")
        self._console = Console(highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line on the terminal and in the log."""
        self._console.print(text, markup=False)
        print(text, file=self._file, flush=True)

    @contextmanager
    def stage(self, title: str) -> Iterator[TextIO]:
        """Show the stage while it runs, and its time when it has ended. Yields the open log file."""
        print(f"\n── {title}", file=self._file, flush=True)
        began = time.monotonic()
        with self._console.status(title):
            yield self._file
        self._end(title, began)

    @contextmanager
    def steps(self, title: str, total: int, done: Callable[[], tuple[int, str]]) -> Iterator[TextIO]:
        """Like `stage`, with a progress bar. `done` returns the steps that are done and a text to show beside them."""
        print(f"\n── {title}", file=self._file, flush=True)
        began, ended = time.monotonic(), threading.Event()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
        with Progress(*columns, TimeRemainingColumn(), console=self._console, transient=True) as progress:
            task = progress.add_task(title, total=total, text="")

            def follow() -> None:
                while not ended.wait(0.25):
                    completed, text = done()
                    progress.update(task, completed=completed, text=f"{completed}/{total} {text}")

            follower = threading.Thread(target=follow, daemon=True)
            follower.start()
            try:
                yield self._file
            finally:
                ended.set()
                follower.join()
        self._end(title, began)

    def run(self, command: Sequence[str], directory: Path | None = None) -> None:
        """Run a command in a directory, by default the current one, with its output in the log.

        Raises UsageError with the last lines of the output and the command, if the command fails.
        """
        self._file.flush()
        status = run_to_end(command, directory=directory, stdout=self._file, stderr=subprocess.STDOUT).returncode
        if status != 0:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            last = "\n".join(line for line in lines[-LAST_LINES:] if line.strip())
            why = f"its command ended with {status}. The last lines of {self.log} are:\n{last}"
            raise usage_error("the stage failed", why=why, fix=f"repeat it with {shlex.join(command)}")

    def close(self) -> None:
        """Close the log file."""
        self._file.close()

    def _end(self, title: str, began: float) -> None:
        seconds = f"{time.monotonic() - began:.1f} s"
        print(f"   {seconds}", file=self._file, flush=True)
        self._console.print(f"── {title}  [dim]{seconds}[/dim]")
