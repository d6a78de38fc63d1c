"""The state of a run in the bucket of its platform, which `trainway status` shows on every machine.

The launcher names the file in the environment variable TRAINWAY_STATE. Only rank 0 writes it, from a thread of its own,
and the rank that fails. `trainway/launch/registry/state.py` describes the content.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.hosts.location_files import is_s3, write
from training.hosts.suspect_nodes import this_attempt

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

VERSION = 1
SECONDS_BETWEEN_WRITES = float(os.environ.get("TRAINWAY_STATE_SECONDS", "30"))
# How long the end of a run waits for a bucket that does not answer.
_LONGEST_END_SECONDS = 5.0
# The pace of a run is the median of its last steps, so that a checkpoint or an evaluation does not change it.
_STEPS_OF_PACE = 50
# What the state keeps of an earlier attempt, and of how many. trainway/launch/node/aws_on_node.py has the same.
_OF_EARLIER = ("attempt", "started", "written", "state", "first_step", "step", "stepping", "productive", "exit_status")
_MOST_EARLIER = 100
_LONGEST_REASON = 300
# A job that takes no step has used no time for steps. The time of a program that reports none is unknown.
_NO_STEPS = {"stepping": 0.0, "productive": 0.0}


def run_state() -> StateWriter | None:
    """Return the writer of the state of this run, or None for a run without a platform."""
    location = os.environ.get("TRAINWAY_STATE")
    return StateWriter(location) if location else None


class StateWriter:
    """The state of a run, which is written at most every SECONDS_BETWEEN_WRITES and at the end.

    No step waits for a write. A write that fails is reported once, and the run continues.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self._now: dict[str, Any] = {"state": "running", "started": time.time(), **_NO_STEPS}
        if restarts := os.environ.get("TRAINWAY_RESTARTS"):
            self._now["restarts"] = int(restarts)
        self._paces = deque[float](maxlen=_STEPS_OF_PACE)
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._attempt: int | None = None
        self._is_reported = False

    def take(self, event: str, values: Mapping[str, Any]) -> None:
        """Take what an event of the metrics says about the state."""
        with self._lock:
            if event == "nodes":
                self._now["nodes"] = list(values["nodes"])
            elif event == "start":
                self._now["steps"] = values["steps"]
                self._now["started"] -= values.get("startup_seconds", 0.0)
            elif event == "step":
                self._take_step(values)
            elif event == "stragglers":
                self._now["stragglers"] = values["reason"] if values["stragglers"] else None
            elif event == "checkpoint":
                saved = {name: values[name] for name in ("step", "location", "every")}
                self._now["checkpoint"] = saved | {"time": time.time()}
        # From the start on, so that an attempt without a step leaves its time, too.
        if event in ("start", "step") and self._thread is None:
            self._thread = threading.Thread(target=self._write_until_the_end, name="run state", daemon=True)
            self._thread.start()

    def _take_step(self, values: Mapping[str, Any]) -> None:
        """Take a step. Its time is productive, except waits for data and for a checkpoint, unless it was skipped."""
        seconds, waits = values["step_seconds"], values.get("breakdown", {})
        self._paces.append(seconds)
        self._now |= {"step": values["step"], "loss": values["loss"], "stepped": time.time()}
        self._now.setdefault("first_step", values["step"])
        useful = 0.0 if values.get("skipped") else seconds - waits.get("data_wait", 0.0) - waits.get("checkpoint", 0.0)
        for name, spent in (("stepping", seconds), ("productive", max(0.0, useful))):
            self._now[name] = round(self._now[name] + spent, 3)

    def close(self, state: str) -> None:
        """Write that the run is `succeeded` or `stopped`."""
        with self._lock:
            self._now["state"] = state
        self._end.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_until_the_end, name="run state", daemon=True)
            self._thread.start()
        self._thread.join(_LONGEST_END_SECONDS)

    def _write_until_the_end(self) -> None:
        while True:
            is_last = self._end.is_set()
            self._write()
            if is_last:
                return
            self._end.wait(SECONDS_BETWEEN_WRITES)

    def _write(self) -> None:
        with self._lock:
            now = dict(self._now)
            pace = statistics.median(self._paces) if self._paces else None
        try:
            _change(self._location, lambda before: self._after(before, now | {"step_seconds": pace}))
        except Exception as error:  # whatever it is, the run continues
            if not self._is_reported:
                self._is_reported = True
                told = f"warning: the state of the run cannot be written, and `trainway status` is old: {error}"
                print(told, file=sys.stderr, flush=True)

    def _after(self, before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
        """Return the state to write. A failure of this attempt stays: the ranks are stopped because one has failed."""
        if self._attempt is None:
            self._attempt = before.get("attempt", 0) + (not _is_of_this_attempt(before))
        now |= {"attempt": self._attempt, "ranks": _ranks()}
        if before.get("attempt") != self._attempt:
            return now | {"earlier": _with_last(before)}
        if before.get("state") == "failed":
            # Rank 0 alone knows the times and the steps of the attempt.
            now |= {name: before.get(name) for name in ("state", "reason", "exit_status")}
        return now | {"earlier": before.get("earlier", [])}


def _ranks() -> str:
    """Return the name of the attempt, which all of its ranks know. Without torchrun, each process is an attempt."""
    return this_attempt() if "MASTER_PORT" in os.environ else f"process {os.getpid()}"


def _is_of_this_attempt(state: Mapping[str, Any]) -> bool:
    return state.get("ranks") == _ranks()


def _with_last(before: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is kept of the attempts up to that of the state before, the oldest first."""
    if "attempt" not in before:
        return []
    last = {name: before[name] for name in _OF_EARLIER if before.get(name) is not None}
    if before.get("reason"):
        last["reason"] = str(before["reason"])[:_LONGEST_REASON]
    return [*before.get("earlier", []), last][-_MOST_EARLIER:]


def write_failure(reason: str, status: int, started: float | None = None) -> None:
    """Write that the run has failed, and why. Never raises.

    `status` is the exit status, and `started` the time at which this process began, in seconds since the epoch.
    """
    location = os.environ.get("TRAINWAY_STATE")
    if location is None:
        return

    def after(before: dict[str, Any]) -> dict[str, Any]:
        if not _is_of_this_attempt(before):
            following = {"attempt": before.get("attempt", 0) + 1, "started": started or time.time(), "ranks": _ranks()}
            before = following | _NO_STEPS | {"earlier": _with_last(before)}
        elif before.get("state") == "failed":
            return before  # the first rank that failed is closer to the cause
        return before | {"state": "failed", "reason": reason, "exit_status": status}

    with contextlib.suppress(Exception):  # the reason is printed, too
        _change(location, after)


def _change(location: str, after: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Write what `after` makes of the state that was written before, by this attempt or an earlier one.

    In S3 the write is conditional, so that it cannot undo one that happens at the same time.
    """
    if not is_s3(location):
        path = Path(location)
        write(location, _as_json(after(json.loads(path.read_bytes()) if path.is_file() else {})))
        return
    bucket, _, key = location.removeprefix("s3://").partition("/")
    for is_last in (False, False, False, True):
        before, condition = _before(bucket, key)
        try:
            _client().put_object(Bucket=bucket, Key=key, Body=_as_json(after(before)), **condition)
        except _client().exceptions.ClientError as error:
            if is_last or error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 409, 412):
                raise
            continue
        return


def _before(bucket: str, key: str) -> tuple[dict[str, Any], Any]:
    """Return the state in S3, and the condition of a write: that the object is still the same."""
    try:
        found = _client().get_object(Bucket=bucket, Key=key)
    except _client().exceptions.ClientError as error:
        # S3 answers 403 for an absent object to those who cannot list the whole bucket.
        if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (403, 404):
            raise
        return {}, {"IfNoneMatch": "*"}
    return json.loads(found["Body"].read()), {"IfMatch": found["ETag"]}


def _as_json(state: dict[str, Any]) -> bytes:
    # JSON has no NaN, and other programs refuse it.
    finite = {name: value for name, value in state.items() if value == value}
    return json.dumps({**finite, "schema_version": VERSION, "written": time.time()}).encode()


@functools.cache
def _client() -> S3Client:
    """Return a client that gives up soon, unlike that of the checkpoints: the next write is not far."""
    import boto3
    from botocore.config import Config

    patience = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2})
    return boto3.client("s3", region_name=os.environ.get("AWS_REGION"), config=patience)
