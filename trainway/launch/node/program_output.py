"""The output of a program: passed on without secrets, kept in the log, and read for causes and metrics."""

import re
from pathlib import Path
from typing import IO

from trainway.launch.node.failure_causes import Causes, processes_killed_for_memory
from trainway.launch.node.metrics_in_output import MetricsInOutput
from trainway.launch.node.unread_output import discard

SHORTEST_MASKED = 8
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

    def cause(self, seconds: float) -> "tuple[str, bool]":
        """Return why the program failed after some seconds, if it is known, and whether that is for good."""
        return self.causes.sentence(seconds, processes_killed_for_memory() > self._killed_before)

    def without_secrets(self, line: bytes) -> bytes:
        """Return a line with asterisks in place of the secrets."""
        for value in self._secrets:
            line = line.replace(value, b"***")
        return line


def pass_on(source: "IO[bytes]", sink: "IO[bytes]", log: Path, output: ProgramOutput) -> None:
    """Pass on what the program writes, and keep lines that are of no rank of torchrun, which keeps those itself.

    If the reader of the sink has closed it, discard the lines, and continue.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        for line in map(output.without_secrets, source):
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
