"""Send the metrics of a run to one tracker, as they appear in metrics.jsonl:

    python -m training.observe.tracker_process mlflow|wandb|comet RUN [--secret VARIABLE=NAME]

Rank 0 starts this process, and writes the state of the run to its standard input at the end. Without a state, the run
was killed. The tracker's package is imported here and nowhere else. What it prints is in RUN/trackers/TRACKER.log.

A tracker has each step once. A step that the run took before, and that the tracker has, is not sent again.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

SECONDS_BETWEEN_READS = 1.0
# MLflow takes at most 1,000 numbers in a request, and a step has about 20.
# https://mlflow.org/docs/latest/rest-api.html#log-batch (read 2026-11-27)
ROWS_AT_ONCE = 40
_LONGEST_PAUSE_SECONDS = 60.0
GIVE_UP = signal.SIGUSR2
_ON_TRACKER = {"step", "evaluation"}
_NOT_SENT = {"event", "step", "time", "loss_hex", "breakdown"}


class TrackedRow(NamedTuple):
    """The numbers of a step or an evaluation. `kind` is the event in metrics.jsonl, and `time` is in Unix seconds."""

    kind: str
    step: int
    time: float
    numbers: dict[str, float]


class Tracker(Protocol):
    """A run in a tracker. `sent` has the last step of each kind of row that the tracker has."""

    sent: dict[str, int]

    def send(self, rows: Sequence[TrackedRow]) -> None:
        """Send rows, or raise an exception of the tracker's package."""

    def finish(self, state: str) -> None:
        """Send the remaining rows, and end the run as `succeeded`, `stopped`, or `killed`."""


# Opens a run, by its name, its directory for the tracker's own files, and its description.
Open = Callable[[str, Path, dict[str, Any]], Tracker]


class Rows:
    """Read the rows of metrics.jsonl that the tracker does not have yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.description: dict[str, Any] = {}
        self.waiting: list[TrackedRow] = []

    def read(self) -> None:
        """Read the new lines of the file, except for a line that is being written."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._offset)
            while (line := file.readline()).endswith(b"\n") and len(self.waiting) < ROWS_AT_ONCE:
                self._offset += len(line)
                self._take(line)

    def not_sent(self, sent: dict[str, int]) -> int:
        """Return how many steps of the file the tracker does not have."""
        has, missing = sent.get("step", 0), {row.step for row in self.waiting if row.kind == "step"}
        while True:
            self.waiting = []
            self.read()
            if not self.waiting:
                return sum(step > has for step in missing)
            missing |= {row.step for row in self.waiting if row.kind == "step"}

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event.get("event") == "start":
            self.description = {name: value for name, value in event.items() if name not in ("event", "time")}
        elif event.get("event") in _ON_TRACKER:
            self.waiting.append(TrackedRow(event["event"], event["step"], event["time"], dict(_numbers(event))))


def _numbers(event: dict[str, Any]) -> Iterator[tuple[str, float]]:
    prefix = "" if event["event"] == "step" else "evaluation/"
    yield f"{prefix}step", event["step"]
    found = {name: value for name, value in event.items() if name not in _NOT_SENT}
    found |= {f"breakdown/{phase}": seconds for phase, seconds in event.get("breakdown", {}).items()}
    for name, value in found.items():
        if isinstance(value, int | float) and math.isfinite(value):
            yield prefix + name, float(value)


class EndOfRun:
    """Wait for the end of the run, whose state rank 0 writes to the standard input of this process."""

    def __init__(self) -> None:
        self.state: str | None = None
        self._reached = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        self.state = sys.stdin.read().strip() or "killed"
        self._reached.set()

    def wait(self, seconds: float) -> None:
        """Wait for so many seconds, or until the run ends."""
        self._reached.wait(seconds)


def follow(tracker: str, run: Path, open_run: Open, end: EndOfRun, lock: IO[str], say: Callable[[str], None]) -> None:
    """Send the rows of a run to a tracker until the run has ended and all are sent.

    The process of an attempt that was killed may still send what is left. The lock keeps both from sending the same.

    What the tracker refuses is tried again, after up to a minute, and after the end of the run for a minute. A reason
    is told once.
    """
    rows, told, pause = Rows(run / "metrics.jsonl"), set[str](), 1.0
    opened: Tracker | None = None
    gives_up: float | None = None

    def give_up(*_: object) -> None:
        count = rows.not_sent(opened.sent if opened else {})
        say(f"{count} steps were not sent. They are in {run / 'metrics.jsonl'}, and `trainway resume` sends them")
        os._exit(1)

    signal.signal(GIVE_UP, give_up)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(lock, fcntl.LOCK_EX)
    while True:
        state = end.state
        rows.read()
        try:
            if rows.description and opened is None:
                opened = open_run(os.environ["TRAINWAY_RUN_NAME"], run / "trackers" / tracker, rows.description)
            if opened and rows.waiting:
                opened.send(_new(rows.waiting, opened.sent))
                rows.waiting = []
                pause = 1.0
                continue
            if state is not None:
                if opened:
                    opened.finish(state)
                return
        except Exception as error:  # whatever the package raises, the run continues
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            if reason not in told:
                told.add(reason)
                say(f"the metrics cannot be sent, and are tried again: {reason}")
            if state is not None:
                gives_up = gives_up or time.monotonic() + _LONGEST_PAUSE_SECONDS
                if time.monotonic() > gives_up:
                    give_up()
                time.sleep(1)
            end.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            continue
        end.wait(SECONDS_BETWEEN_READS)


def _new(rows: Sequence[TrackedRow], sent: dict[str, int]) -> list[TrackedRow]:
    """Return the rows of steps that the tracker does not have. Each step is there once."""
    last, found = dict(sent), list[TrackedRow]()
    for row in rows:
        if row.step > last.get(row.kind, 0):
            last[row.kind] = row.step
            found.append(row)
    return found


def read_secret(text: str) -> str:
    """Return the value of a secret of AWS Secrets Manager, or of one key of its JSON: `NAME` or `NAME#KEY`."""
    import boto3

    name, _, key = text.partition("#")
    region = name.split(":")[3] if name.startswith("arn:") else os.environ.get("AWS_REGION")
    value = boto3.client("secretsmanager", region_name=region).get_secret_value(SecretId=name)["SecretString"]
    return str(json.loads(value)[key]) if key else value


def main() -> int:
    """Send the metrics of a run to one tracker, until the run ends."""
    parser = argparse.ArgumentParser(description="Send the metrics of a run to one tracker.")
    parser.add_argument("tracker", choices=("mlflow", "wandb", "comet"))
    parser.add_argument("run", type=Path, help="directory of the run")
    parser.add_argument("--secret", metavar="VARIABLE=NAME", help="a variable and its secret")
    asked = parser.parse_args()
    with contextlib.suppress(OSError):
        os.nice(10)  # the ranks come first
    # Slurm signals all processes of a run that has to stop. This one still has the last steps to send.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    said, files = os.fdopen(os.dup(2), "w"), asked.run / "trackers"

    def say(sentence: str) -> None:
        with contextlib.suppress(OSError):
            print(f"warning: trackers.{asked.tracker}: {sentence}", file=said, flush=True)

    end = EndOfRun()
    (files / asked.tracker).mkdir(parents=True, exist_ok=True)
    log = os.open(files / f"{asked.tracker}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    variable, _, secret = (asked.secret or "").partition("=")

    def open_run(run: str, directory: Path, description: dict[str, Any]) -> Tracker:
        if secret and variable not in os.environ:
            os.environ[variable] = read_secret(secret)
        module = importlib.import_module(f"training.observe.tracker_{asked.tracker}")
        opened: Tracker = module.open_run(run, directory, description)
        return opened

    try:
        importlib.import_module(f"training.observe.tracker_{asked.tracker}")
    except ImportError as error:
        say(f"the run is not tracked, because a package is missing: {error}. docs/trackers.md says where to name it")
        return 1
    with (files / f"{asked.tracker}.lock").open("w") as lock:
        follow(asked.tracker, asked.run, open_run, end, lock, say)
    return 0


if __name__ == "__main__":
    sys.exit(main())
