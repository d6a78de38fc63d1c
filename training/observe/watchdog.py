"""Notice that a run hangs, keep the stacks of all ranks, and end them so that the run restarts.

A rank that is stuck holds all others in the next collective. Each rank therefore watches itself: two threads beside the
training loop compare the time since the last step with a budget. The first rank over its budget raises an alarm in the
store of the rendezvous. Each rank then writes the stacks of its threads into the directory of the run, and says where
it is. One rank reports which ranks do not answer or differ from the others. All ranks end with exit status 76.

Each rank also watches the heartbeats of the next rank, in a ring. If they stop, the budget of a step is shorter,
because a lost host never completes it.

The loop only notes the time of each step. All communication is in the threads:

- The guard never waits for anything but time, so it ends the rank even if the store does not answer. It runs from the
  start of the rank on, so it also ends a rank that waits for others that never come.
- The talker speaks to the store, and can hang with the host of the store. It runs once the ranks have met.

A rank can be stuck in C code that holds Python's lock, so that its threads cannot run. The other ranks of the host make
it write its stacks to its log with SIGUSR2, whose handler needs no lock, and then kill it.
"""

import contextlib
import faulthandler
import json
import os
import signal
import socket
import statistics
import sys
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch.distributed as dist
from torch._C._distributed_c10d import Store  # the public name is not declared as exported

from training.config.hang_detection import HangDetection
from training.errors import HUNG_STATUS
from training.hosts.suspect_nodes import suspect, this_attempt
from training.hosts.this_node import node_name
from training.observe.hang_report import RankRecord, Suspects, named_nodes, position_of, sentence, suspects
from training.observe.run_state import write_failure

_PREFIX = "trainway/watchdog"
_STEP, _MEETING = "a step", "the meeting of the ranks"
# The pace of a run is the median of its last steps.
_STEPS_OF_PACE = 50
# The first steps compile, allocate memory, and connect.
_FIRST_STEPS = 3
# How often the guard compares the time of a step with the budget. A comparison takes microseconds.
_SECONDS_BETWEEN_CHECKS = 0.2
# The interval at which a rank writes its heartbeat and checks for an alarm. Small runs use a short interval, so that a
# hang ends soon. The store of a large run serves 1,600 heartbeats a second.
_LEAST_SECONDS_BETWEEN_BEATS, _MOST_SECONDS_BETWEEN_BEATS = 0.2, 5.0
_BEATS_PER_SECOND = 1600
# The rank that reports waits at most this long for the others. If they look for alarms more often, it waits less.
_SECONDS_FOR_ANSWERS = 4.0
# A rank that has seen an alarm answers within this time.
_SECONDS_OF_AN_ANSWER = 0.8
# After this time without a heartbeat of the next rank, the budget of a step is twice its usual time.
_SECONDS_WITHOUT_LIFE = 15.0
_USUAL_TIMES_WITHOUT_LIFE = 2
# A guard that has not run for this long was stopped as a whole, for example by `scontrol suspend`.
_SECONDS_OF_A_STOP = 2.0
# A rank ends this long after an alarm, whether or not somebody has reported.
_SECONDS_TO_REPORT = 7.0
# A rank whose call to the store has taken this long does not wait for a report, because the host of the store hangs.
_SECONDS_OF_SILENCE = 2.0
# Between the end of the report and that of the ranks of this host that have not ended by themselves.
_SECONDS_TO_END = 0.4
# `close` waits this long for a thread. A store that does not answer would otherwise keep the rank alive.
_SECONDS_TO_CLOSE = 2.0


class _Work(NamedTuple):
    """What the training loop does, since when (of the monotonic clock, in seconds), and after which step."""

    name: str
    since: float
    step: int
    longer_by: float = 0.0
    """Seconds that are added to the budget."""


class Watchdog:
    """The watch over one rank, from its creation until `close`. With `action: none` it does nothing.

    `run` is the directory of the run.
    """

    _store: Store
    on_beat: Callable[[Store], None] | None = None
    """Called with the store after each heartbeat, in the thread of the heartbeats."""

    def __init__(self, settings: HangDetection, run: Path) -> None:
        self._settings, self._run = settings, run
        self._paces = deque[float](maxlen=_STEPS_OF_PACE)
        self._work = _Work("the start", time.monotonic(), 0)
        self._steps = 0
        self._late = self._work, 0.0, self._settings.other_seconds
        self._main_thread = threading.get_ident()
        self._rank = int(os.environ.get("RANK", "0"))
        self._record = RankRecord(
            self._rank, socket.gethostname(), os.getpid(), os.getppid(), 0, self._work.name, node=node_name()
        )
        # Until the ranks share a store, a rank knows no others, and their files have no name of the attempt.
        self._is_shared = False
        self._directory = run / "hangs" / "meeting"
        # Attempts whose ranks do not meet share this directory. The time of the report says nothing about its attempt,
        # because it can be that of another clock.
        self._report_before = _state_of(self._directory / "report")
        self._neighbors: list[RankRecord] = []
        self._awaited = "The ranks have not met yet"
        # The last heartbeat of the next rank, and the monotonic time at which this rank read it.
        self._sign_of_life, self._heard = b"", time.monotonic()
        # The monotonic time of the unanswered call to the store, or None.
        self._asked: float | None = None
        self._alarm, self._reported, self._closed = threading.Event(), threading.Event(), threading.Event()
        # Ends the pause of the talker, after an alarm or when the watch closes.
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []
        if settings.action != "none":
            self._begin(self._guard)

    def share(self, store: Store) -> None:
        """Begin to watch the others, and exchange the process IDs with them. Every rank calls this once."""
        if self._settings.action == "none":
            return
        self._ranks = dist.get_world_size()
        # The name of the directory of an attempt. A clone has its own connection: the loop can wait for the store, too.
        if self._rank == 0:
            store.set(f"{_PREFIX}/name", uuid.uuid4().hex[:8])
        attempt = store.get(f"{_PREFIX}/name").decode()
        self._store = store.clone()  # type: ignore[attr-defined] # the method is not declared
        self._store.set(_key(self._rank), self._record.encoded())
        dist.barrier()
        local_rank, local_ranks = (int(os.environ.get(name, "0")) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        first = self._rank - local_rank
        faulthandler.register(signal.SIGUSR2, file=sys.__stderr__ or sys.stderr, all_threads=True)
        self._neighbors = [self._read(rank) for rank in range(first, first + local_ranks) if rank != self._rank]
        self._directory, self._is_shared = self._run / "hangs" / attempt, True
        self._begin(self._talk)

    def _begin(self, body: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=body, name=f"watchdog{body.__name__}", daemon=True))
        self._threads[-1].start()

    def step(self) -> None:
        """Note that a step begins, and that the step before it is over."""
        now = time.monotonic()
        before = self._work
        if before.name == _STEP:
            self._paces.append(now - before.since)
        self._steps += 1
        self._work = _Work(_STEP, now, self._steps)

    def other(self, name: str, longer_by: float = 0.0) -> None:
        """Note that something other than a step begins. Its budget is `other_seconds` plus `longer_by`."""
        self._work = _Work(name, time.monotonic(), self._steps, longer_by)

    def meeting(self) -> None:
        """Note that this rank waits for the others of its attempt from now on. Its budget is `meeting_seconds`."""
        self.other(_MEETING)

    def awaits(self, what: str) -> None:
        """Note for whom this rank waits in the meeting, which is told if they do not come."""
        self._awaited = what[:1].upper() + what[1:]

    def close(self) -> None:
        """End the watch, and wait up to _SECONDS_TO_CLOSE for each of its threads.

        A thread crashes the process if a call to the store returns while Python shuts down.
        """
        self._closed.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(_SECONDS_TO_CLOSE)

    def budget(self, silence: float = 0.0) -> float:
        """Return how many seconds the current work may take.

        `silence` is the number of seconds since the last heartbeat of the next rank.
        """
        paces, work = list(self._paces), self._work
        if work.name == _MEETING:
            return self._settings.meeting_seconds
        if work.name != _STEP or len(paces) < _FIRST_STEPS:
            return self._settings.other_seconds + work.longer_by
        usual = statistics.median(paces)
        budget = max(self._settings.least_seconds, self._settings.step_factor * usual)
        if silence > _SECONDS_WITHOUT_LIFE:
            return min(budget, max(_SECONDS_WITHOUT_LIFE, _USUAL_TIMES_WITHOUT_LIFE * usual))
        return budget

    def _guard(self) -> None:
        pause = min(_SECONDS_BETWEEN_CHECKS, self._settings.least_seconds / 4)
        # Time in which this process did not run is not the work's.
        stopped, work, checked = 0.0, self._work, time.monotonic()
        while not self._closed.wait(pause):
            now = time.monotonic()
            if self._work is not work:
                stopped, work = 0.0, self._work
            if now - checked > pause + _SECONDS_OF_A_STOP:
                stopped += now - checked - pause
            checked = now
            seconds, budget = now - work.since - stopped, self.budget(now - self._heard - stopped)
            if self._alarm.is_set() or seconds > budget:
                self._late = work, seconds, budget
                self._end()

    def _end(self) -> NoReturn:
        self._keep_stacks()
        is_store_silent = self._asked is not None and time.monotonic() - self._asked > _SECONDS_OF_SILENCE
        self._raise_alarm()
        reported = self._is_shared and not is_store_silent and self._reported.wait(_SECONDS_TO_REPORT)
        if not reported and self._is_first_to_report():
            unknown = "The store of the rendezvous does not answer, so the ranks that hang are unknown"
            unknown = unknown if self._is_shared else self._awaited
            # A thread, because the state of the run is in a bucket, which may not answer either.
            threading.Thread(target=self._report, args=(Suspects([], unknown),), daemon=True).start()
        self._signal_neighbors(signal.SIGUSR2)
        time.sleep(_SECONDS_TO_END)
        # torchrun waits up to its grace for a rank that is stopped. It restarts all ranks of the host anyway.
        self._signal_neighbors(signal.SIGKILL)
        os._exit(HUNG_STATUS)

    def _signal_neighbors(self, number: signal.Signals) -> None:
        """Send a signal to the ranks of this host that have not ended by themselves."""
        for neighbor in self._neighbors:
            if neighbor.parent_pid == os.getppid():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(neighbor.pid, number)

    def _keep_stacks(self) -> None:
        with contextlib.suppress(OSError):  # a full disk, or one that hangs, must not keep the rank alive
            self._directory.mkdir(parents=True, exist_ok=True)
            with (self._directory / f"rank-{self._rank}.stacks").open("w", encoding="utf-8") as file:
                faulthandler.dump_traceback(file, all_threads=True)

    def _is_first_to_report(self) -> bool:
        """Return whether no other rank of this attempt that sees the directory of the run has reported."""
        report = self._directory / "report"
        try:
            report.touch(exist_ok=False)
        except FileExistsError:
            if self._is_shared or _state_of(report) != self._report_before:
                return False
            # A new file, because a file system may give two times of a file that are equal.
            written = report.with_name(f"report.{self._rank}")
            written.touch()
            written.replace(report)
        except OSError:
            return True
        return True

    def _talk(self) -> None:
        beat = 0
        while True:
            self._wake.wait(self._seconds_between_beats())
            if self._closed.is_set():
                return
            self._asked = time.monotonic()
            try:
                if self._alarm.is_set():
                    self._answer()
                    return
                beat += 1
                self._store.set(_key(self._rank), replace(self._record_now(), beat=beat).encoded())
                sign = self._store.get(_key((self._rank + 1) % self._ranks))
                if sign != self._sign_of_life:
                    self._sign_of_life, self._heard = sign, time.monotonic()
                if self._store.check([f"{_PREFIX}/alarm"]):
                    self._raise_alarm()
                self._tell_beat()
                self._asked = None
            except dist.DistError:
                # The host of the store has ended. The loop fails by itself, or the guard ends this rank.
                return

    def _tell_beat(self) -> None:
        try:
            if self.on_beat:
                self.on_beat(self._store)
        except dist.DistError:
            raise
        except Exception:
            # Without heartbeats, the others would take this rank for one that hangs.
            print("the comparison of the ranks' pace has failed, and ends", file=sys.stderr)
            traceback.print_exc()
            self.on_beat = None

    def _raise_alarm(self) -> None:
        self._alarm.set()
        self._wake.set()

    def _seconds_between_beats(self) -> float:
        seconds = max(_LEAST_SECONDS_BETWEEN_BEATS, self._ranks / _BEATS_PER_SECOND)
        return min(seconds, _MOST_SECONDS_BETWEEN_BEATS, self._settings.least_seconds / 4)

    def _record_now(self, position: str = "") -> RankRecord:
        return replace(self._record, step=self._work.step, work=self._work.name, position=position)

    def _answer(self) -> None:
        """Raise the alarm for all ranks, say where this one is, and report if no other rank does."""
        self._store.set(f"{_PREFIX}/alarm", str(self._rank))
        self._store.set(_key(self._rank), self._record_now(position_of(self._main_thread)).encoded())
        reporter = self._store.compare_set(f"{_PREFIX}/reporter", "", str(self._rank)).decode()
        if reporter == str(self._rank):
            self._report(suspects(self._answers()))
            self._store.set(f"{_PREFIX}/reported", "")
        else:
            self._store.wait([f"{_PREFIX}/reported"])
        self._reported.set()

    def _answers(self) -> list[RankRecord]:
        """Return the records of all ranks, as soon as all have answered."""
        end = time.monotonic() + min(_SECONDS_FOR_ANSWERS, self._seconds_between_beats() + _SECONDS_OF_AN_ANSWER)
        while True:
            values = self._store.multi_get([_key(rank) for rank in range(self._ranks)])
            records = [RankRecord.decoded(value) for value in values]
            if all(each.position for each in records) or time.monotonic() > end:
                return records
            time.sleep(0.2)

    def _report(self, found: Suspects) -> None:
        work, seconds, budget = self._late
        said = sentence(work.name, seconds, budget, found, self._directory)
        print(f"hang: {said}", file=sys.stderr, flush=True)
        event = {
            "event": "hang",
            "time": time.time(),
            "work": work.name,
            "seconds": seconds,
            "budget_seconds": budget,
            "suspects": [each.rank for each in found.records],
            "hosts": sorted({each.host for each in found.records}),
            "reason": found.reason,
            "stacks": str(self._directory),
        }
        with contextlib.suppress(OSError), (self._run / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
        # Before the ranks end: their agents look at the record when they start them again.
        for node, reason in named_nodes(found, int(os.environ.get("GROUP_WORLD_SIZE", "1"))).items():
            suspect(self._run, node, "fault", reason, this_attempt())
        write_failure(f"hang: {said}", HUNG_STATUS)

    def _read(self, rank: int) -> RankRecord:
        return RankRecord.decoded(self._store.get(_key(rank)))


def _key(rank: int) -> str:
    return f"{_PREFIX}/rank/{rank}"


def _state_of(file: Path) -> tuple[int, int] | None:
    """Return what differs between two files of one name, or None without a file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
