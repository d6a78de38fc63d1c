"""The output of a program: passed on without secrets, kept in the log, and read for causes and metrics."""

import re
import time
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO

from trainway.launch.node.failure_causes import Causes, processes_killed_for_memory
from trainway.launch.node.metrics_in_output import MetricsInOutput
from trainway.launch.node.unread_output import discard

SHORTEST_MASKED = 8
SECONDS_BETWEEN_UPDATES = 1.0
MOST_BYTES = 2**16
# A carriage return at the end of what was read may be followed by a newline.
_END = re.compile(rb"(\r?\n|\r(?=[^\n]))")
# What torchrun puts before a line of a rank.
_RANK = re.compile(r"^(?:\[default\d+\]:|\[rank\d+\]:)")


class ProgramOutput:
    """What is done with the lines that the program writes: numbers are read, and values of secrets are not passed on.

    torchrun writes the files of its ranks itself, so a rank that prints a secret has it in its own file.
    """

    def __init__(self, metrics: MetricsInOutput, secrets: "list[str]") -> None:
        self.metrics = metrics
        self.causes = Causes()
        self._killed_before = processes_killed_for_memory()
        # A short value, such as a user name, is part of many words.
        self._secrets = [value.encode() for value in secrets if len(value) >= SHORTEST_MASKED]
        self.longest_secret = max(map(len, self._secrets), default=0)

    def cause(self, seconds: float) -> "tuple[str, bool]":
        """Return why the program failed after some seconds, if it is known, and whether that is for good."""
        return self.causes.sentence(seconds, processes_killed_for_memory() > self._killed_before)

    def without_secrets(self, line: bytes) -> bytes:
        """Return a line with asterisks in place of the secrets."""
        for value in self._secrets:
            line = line.replace(value, b"***")
        return line


def lines_of(source: "BufferedReader", output: ProgramOutput) -> "Iterator[bytes]":
    """Yield what a program writes, without secrets, as lines that end with a newline.

    A carriage return ends a line of a progress bar. Of these lines, one is yielded every SECONDS_BETWEEN_UPDATES. A
    line without an end is yielded in pieces of MOST_BYTES.
    """
    kept, next_update = b"", 0.0
    while read := source.read1(MOST_BYTES):
        *ended, kept = _END.split(kept + read)
        # Two values for each line: its bytes, and its end.
        for at in range(0, len(ended), 2):
            line, end = ended[at : at + 2]
            if end == b"\r":
                if time.monotonic() < next_update:
                    # The step of a line that is left out counts, too.
                    output.metrics.read_bar(line.decode(errors="replace"))
                    continue
                next_update = time.monotonic() + SECONDS_BETWEEN_UPDATES
            if line or end != b"\r":
                yield output.without_secrets(line) + b"\n"
        if len(kept) >= MOST_BYTES:
            kept = output.without_secrets(kept)
            # A secret may have begun at the end.
            cut = len(kept) - output.longest_secret
            yield kept[:cut] + b"\n"
            kept = kept[cut:]
    if kept:
        yield output.without_secrets(kept)


def pass_on(source: "BufferedReader", sink: "IO[bytes]", log: Path, output: ProgramOutput) -> None:
    """Pass on what the program writes, and keep lines that are of no rank of torchrun, which keeps those itself.

    If the reader of the sink has closed it, discard the lines, and continue.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        for line in lines_of(source, output):
            try:
                sink.write(line)
                sink.flush()
            except OSError:
                discard(sink)
            text = line.decode(errors="replace").rstrip("\n")
            if not _RANK.match(text):
                file.write(line)
                file.flush()
            output.causes.read(text)
            output.metrics.read(text)
