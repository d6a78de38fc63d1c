"""Watch and control a run on this machine, by its directory and the process that launched it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from trainway.launch.runs.logs import files_of_attempt, files_of_newest_attempt
from trainway.launch.runs.process_identity import started_at
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.target.protocol import Handle, Phase, State
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines, cannot_choose

SECONDS_BETWEEN_LOOKS = 0.1


def handle_of(run: Path) -> Handle:
    """Return the handle of a run that this process is about to start."""
    return {"run": str(run.absolute()), "pid": str(os.getpid()), "started_at": started_at(os.getpid()) or ""}


def state(handle: Handle) -> State:
    """Return the state of the run: how it ended, or else whether its process is alive."""
    record = read_launch(Path(handle["run"]))
    nodes = (os.uname().nodename,)
    if record["ended"] is None:
        if _runs(handle):
            return State(Phase.RUNNING, nodes=nodes)
        return State(Phase.FAILED, "the process that launched it is gone")
    if "stopped_by" in record:
        return State(Phase.STOPPED, record["stopped_by"])
    if record["exit_status"] is None:
        return State(Phase.FAILED, "the process that launched it ended before the job had ended")
    if record["exit_status"]:
        return State(Phase.FAILED, record.get("reason") or f"exit status {record['exit_status']}")
    return State(Phase.SUCCEEDED)


def logs(handle: Handle, *, follow: bool, wanted: WantedLines = EVERY_LINE) -> Iterator[str]:
    """Return what the ranks of an attempt wrote to stdout and stderr, each line once. Default: the latest attempt."""
    run, read = Path(handle["run"]), dict[Path, int]()
    if wanted.since_seconds is not None:
        raise cannot_choose("--since", run.name, "the logs of this machine have no times", "use --tail")
    if wanted.attempt is not None and not files_of_attempt(run, wanted.attempt):
        why = "the run has no log of that attempt"
        raise cannot_choose("--attempt", run.name, why, f"leave it out; the logs are below {run / 'logs'}")
    tail = wanted.tail
    while True:
        # Asked before the files are read, so that what was written last is read as well.
        ended = not follow or state(handle).phase is not Phase.RUNNING
        # An earlier attempt may have written its last lines since they were read.
        for (rank, _), paths in _by_stream({*read, *_log_files(run, wanted.attempt)}):
            lines = list[str]()
            for path in paths if wanted.takes("0", rank) else ():
                new, read[path] = _lines_from(path, read.get(path, 0), whole_only=not ended)
                lines += new
            if tail is not None:
                lines = lines[len(lines) - min(tail, len(lines)) :]
            yield from (f"[0 {rank}] {line}" for line in lines)
        if ended:
            return
        # What comes later is wanted as a whole.
        tail = None
        time.sleep(SECONDS_BETWEEN_LOOKS)


def stop(handle: Handle) -> None:
    """Send SIGTERM to the launcher, which forwards it to the job. The job saves a checkpoint and ends."""
    if _runs(handle):
        os.kill(int(handle["pid"]), signal.SIGTERM)


def shell(handle: Handle, node: int) -> Sequence[str]:
    """Return the command that opens a shell on this machine, in the run's directory."""
    del node  # there is one
    return ("sh", "-c", 'cd "$1" && exec "${SHELL:-sh}"', "sh", handle["run"])


def forward(handle: Handle, node: int, port: int, local_port: int) -> None:
    """Return None: the ports of the run are ports of this machine."""
    del handle, node, port, local_port


def _runs(handle: Handle) -> bool:
    return bool(handle["started_at"]) and started_at(int(handle["pid"])) == handle["started_at"]


def _log_files(run: Path, attempt: int | None) -> list[Path]:
    return files_of_newest_attempt(run) if attempt is None else files_of_attempt(run, attempt)


def _by_stream(files: Iterable[Path]) -> list[tuple[tuple[str, str], list[Path]]]:
    """Return the local rank, the name of the stream, and the files of each process, in the order of their lines.

    The starter of a program begins another file when one is full (trainway/launch/node/log_file.py).
    """

    def process(path: Path) -> tuple[int, str, str]:
        return int(path.parent.name), path.name[: len("stdout")], str(path.parent)

    ordered = sorted(files, key=lambda path: (*process(path), path.name))
    return [((str(rank), stream), list(paths)) for (rank, stream, _), paths in groupby(ordered, key=process)]


def _lines_from(path: Path, offset: int, *, whole_only: bool) -> tuple[list[str], int]:
    """Return the lines of a file from an offset in bytes, and the offset after them."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            new = file.read()
    except FileNotFoundError:
        # The starter deletes files when there are newer ones.
        return [], offset
    if whole_only:
        new = new[: new.rfind(b"\n") + 1]
    return new.decode(errors="replace").splitlines(), offset + len(new)
