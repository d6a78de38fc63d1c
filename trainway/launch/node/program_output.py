"""The output of a program: passed on without secrets, kept in the log, and read for causes and metrics."""

import os
import re
import select
import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO

from trainway.launch.node.failure_causes import Causes, processes_killed_for_memory
from trainway.launch.node.log_file import LogFile
from trainway.launch.node.metrics_in_output import MetricsInOutput
from trainway.launch.node.unread_output import discard

SHORTEST_MASKED = 8
SECONDS_BETWEEN_UPDATES = 1.0
SECONDS_OF_SILENCE = 0.1
MOST_BYTES = 2**16
# A carriage return at the end of what was read may be followed by a newline.
_END = re.compile(rb"(\r?\n|\r(?=[^\n]))")
# What torchrun puts before a line of a rank. A rank itself puts [rank0]: before the lines of an exception.
_RANK = re.compile(r"^\[default(\d+)\]:")
_OF_TORCHRUN = re.compile(rb"\[default\d+\]:.")
KEPT_IN = "TRAINWAY_OUTPUT_KEPT_IN"
"""The variable by which a target says where the lines of a program are kept.

`files`: in the log of the program alone. `console`: in the log that the target makes of the output of the node. Without
the variable: in both.
"""


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
        killed = processes_killed_for_memory() > self._killed_before
        return self.causes.sentence(seconds, killed, self.metrics.has_step)

    def without_secrets(self, line: bytes) -> bytes:
        """Return a line with asterisks in place of the secrets."""
        for value in self._secrets:
            line = line.replace(value, b"***")
        return line

    def may_end_in_secret(self, text: bytes) -> bool:
        """Return whether the beginning of a secret is at the end of a text."""
        return any(text.endswith(value[:count]) for value in self._secrets for count in range(1, len(value)))


def lines_of(
    source: "BufferedReader", output: ProgramOutput, hear: "Callable[[], None]" = lambda: None
) -> "Iterator[bytes]":
    """Yield what a program writes, without secrets, as lines that end with a newline.

    A carriage return ends a line of a progress bar. Of these lines, one is yielded every SECONDS_BETWEEN_UPDATES. The
    last one before a silence is yielded, too, because its carriage return may come with the next step. A line without
    an end is yielded in pieces of MOST_BYTES. `hear` is called whenever something was read.
    """
    kept, end, shown, next_update = b"", b"", b"", 0.0
    while True:
        silence = max(SECONDS_OF_SILENCE, next_update - time.monotonic())
        if kept and kept != shown and not output.may_end_in_secret(kept) and not _has_more(source, silence):
            is_of_torchrun = _OF_TORCHRUN.match(kept) is not None
            if is_of_torchrun or end == b"\r" or kept.endswith(b"\r"):
                next_update = time.monotonic() + SECONDS_BETWEEN_UPDATES
                yield output.without_secrets(kept.rstrip(b"\r")) + b"\n"
                # torchrun marks the rest of the line as another one.
                kept = shown = b"" if is_of_torchrun else kept
        read = source.read1(MOST_BYTES)
        if not read:
            break
        hear()
        was_bar = end == b"\r"
        *ended, kept = _END.split(kept + read)
        # Two values for each line: its bytes, and its end.
        for at in range(0, len(ended), 2):
            line, end = ended[at : at + 2]
            is_bar, was_bar = was_bar or end == b"\r", end == b"\r"
            if is_bar and shown and line == shown.rstrip(b"\r"):
                continue
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
    if kept and kept != shown:
        yield output.without_secrets(kept)


def _has_more(source: "BufferedReader", seconds: float) -> bool:
    """Return whether the program writes within some seconds, or has closed its end."""
    return bool(select.select([source], [], [], seconds)[0])


def pass_on(
    source: "BufferedReader", sink: "IO[bytes]", log: Path, output: ProgramOutput, hear: "Callable[[], None]"
) -> None:
    """Pass on what the program writes, and keep it in the log, each as far as KEPT_IN says.

    torchrun keeps the lines of its ranks itself. If the reader of the sink has closed it, discard the lines, and
    continue.
    """
    kept_in = os.environ.get(KEPT_IN)
    file = None if kept_in == "console" else LogFile(log)
    ranks = RanksOfTorchrun(log.parents[3])
    for line in lines_of(source, output, hear):
        text = line.decode(errors="replace").rstrip("\n")
        is_kept = file is not None and (ranks.keep(text) or file.keep(line))
        if kept_in != "files" or not is_kept:
            try:
                sink.write(line)
                sink.flush()
            except OSError:
                discard(sink)
        output.causes.read(text)
        output.metrics.read(text)
    if file is not None:
        file.close()


class RanksOfTorchrun:
    """The ranks whose lines torchrun keeps in files below the directory of the logs."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._known: set[str] = set()

    def keep(self, text: str) -> bool:
        """Return whether a line is of a rank that has a file of its own.

        A program can take the files away, for example with `torchrun --log-dir /tmp`.
        """
        rank = _RANK.match(text)
        if rank is None:
            return False
        if rank.group(1) not in self._known:
            files = self._logs.glob(f"*/attempt_*/{rank.group(1)}/std*.log")
            # Those in `program` are of the program itself.
            if any(each.parents[2].name != "program" for each in files):
                self._known.add(rank.group(1))
        return rank.group(1) in self._known
