"""The log of a program on a node, in files of a bounded size.

`stdout.log` has the first lines, and stays. `stdout_000001.log` and its successors have those that follow. Of them, the
newest stay. No file is renamed, so a reader continues where it was, and their names are in the order of their lines.

The launcher sends this file to the nodes beside the starter, which imports it. It requires Python 3.9 and nothing else.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import BinaryIO

FILE_BYTES = int(os.environ.get("TRAINWAY_LOG_FILE_BYTES", str(16 * 2**20)))
NEWEST_FILES = 3


class LogFile:
    """The log whose first file is `path`. A line that it cannot keep, for example on a full disk, is not lost."""

    def __init__(self, path: Path) -> None:
        self._first = path
        self._number = max((_number(each) for each in path.parent.glob(f"{path.stem}_*.log")), default=0)
        self._file: BinaryIO | None = None
        self._bytes = 0
        self._ends_within_line = False
        self._is_reported = False
        try:
            # Also for a program that writes nothing: the log says so.
            self._open()
        except OSError as problem:
            self._report(str(problem))

    def keep(self, line: bytes) -> bool:
        """Write a line that ends with a newline, and return whether the file has it."""
        try:
            if self._file is not None and self._bytes + len(line) > FILE_BYTES:
                self._begin_next()
            if self._file is None:
                self._open()
            assert self._file is not None
            if self._ends_within_line:
                # The disk had space for a part of a line. The next line is one of its own.
                self._file.write(b"\n")
                self._ends_within_line = False
            written = self._file.write(line)
        except OSError as problem:
            self._report(str(problem))
            return False
        self._bytes += written
        self._ends_within_line = written < len(line)
        return not self._ends_within_line

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _path(self, number: int) -> Path:
        return self._first.with_name(f"{self._first.stem}_{number:06}.log") if number else self._first

    def _open(self) -> None:
        self._first.parent.mkdir(parents=True, exist_ok=True)
        path = self._path(self._number)
        # Without a buffer: a line is in the file when the program has written it.
        self._file = path.open("ab", buffering=0)
        self._bytes = path.stat().st_size

    def _begin_next(self) -> None:
        assert self._file is not None
        if not self._number:
            kept = f"the newest {NEWEST_FILES} files of {FILE_BYTES / 2**20:g} MiB are kept beside this one"
            self._file.write(f"trainway: the output continues in {self._path(1).name}, and {kept}\n".encode())
        self._file.close()
        self._file = None
        self._number += 1
        with contextlib.suppress(OSError):
            if self._number > NEWEST_FILES:
                self._path(self._number - NEWEST_FILES).unlink()

    def _report(self, why: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            told = f"trainway: the log cannot be written, and its lines are in the output of this node: {why}"
            print(told, file=sys.stderr, flush=True)


def _number(path: Path) -> int:
    digits = path.stem.rpartition("_")[2]
    return int(digits) if digits.isdigit() else 0
