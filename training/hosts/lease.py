"""The lease of a location: one run at a time writes there.

The file `.lease` names the process that has the lease, and has a heartbeat. A second run that would write to the
location is refused. A run takes over the lease of a process that is dead: it ran on this host and has ended, Slurm or
torchrun has started its ranks again, or its heartbeat stands still. Clocks of hosts differ, so whoever looks at a lease
watches the heartbeat by its own clock.

In S3, conditional writes decide between two runs that want a lease at the same time:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html (read 2026-11-23). On a file system, a
lock of the directory decides. Without such locks, as on Lustre mounted without `flock`, both can win for a moment. The
one that wrote first then notices before its next checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from training.errors import LocationInUse, StorageDenied, StorageFailed, StorageFull, UserError
from training.hosts import location_files
from training.hosts.agent import agent

FILE = ".lease"
SECONDS_BETWEEN_BEATS = 10.0
SECONDS_UNTIL_DEAD = 60.0
"""Seconds without a heartbeat after which a process is dead. A heartbeat can be late by several failed requests."""


@dataclass(frozen=True)
class LeaseHolder:
    """The process that has a lease, as the file records it."""

    id: str
    """A number of this start of the run, unlike any other."""
    run: str
    """Directory of the run, for people."""
    host: str
    machine: str
    """The boot and the process namespace. Two processes of one machine can look for each other."""
    pid: int
    started: int
    """Start of the process in clock ticks since the boot. A process ID alone may be another process by now."""
    beat: int = 0
    """The heartbeat: a number that rises."""
    slurm_job: str = ""
    """Number of the job. Empty elsewhere than under Slurm."""
    slurm_start: int = 0
    """How often Slurm has started the job before."""
    agents: tuple[str, ...] = ()
    """Names of the torchrun agents of all ranks of the run. `this_agent` returns the name of an agent."""


def this_agent() -> str:
    """Return a unique name of the torchrun agent that started this process, or "" if torchrun did not start it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ""
    name = f"{_this_machine()}/{agent()}/{_started(agent())}"
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def this_process(run: str, agents: tuple[str, ...] = ()) -> LeaseHolder:
    """Return the lease holder for this process. `agents` has the names of the torchrun agents of its run."""
    machine = _this_machine()
    return LeaseHolder(
        id=uuid.uuid4().hex,
        run=run,
        host=socket.gethostname(),
        machine=machine,
        pid=os.getpid(),
        started=_started(os.getpid()) or 0,
        slurm_job=os.environ.get("SLURM_JOB_ID", ""),
        slurm_start=int(os.environ.get("SLURM_RESTART_COUNT") or 0),
        agents=agents,
    )


def _this_machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


class Lease:
    """The lease of one location, from its creation until `release`. A thread keeps the heartbeat.

    `on_loss` is called in the thread when another run has taken the lease.

    Raises:
        LocationInUse: a run that is alive has the lease.
        StorageFailed: the lease cannot be read or written.
    """

    def __init__(self, location: str, holder: LeaseHolder, on_loss: Callable[[], None]) -> None:
        self._location, self._holder, self._on_loss = location, holder, on_loss
        self._file = _InS3(location) if location_files.is_s3(location) else _OnDisk(location)
        self._lock = threading.Lock()
        self._loss: str | None = None
        self._acquire()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    def loss(self) -> str | None:
        """Look at the lease, and return why it is lost, or None. Call this before something is written.

        Raises:
            StorageFailed: the lease cannot be read.
        """
        with self._lock:
            found = self._file.read()
            if self._loss is None and found is not None and found.id != self._holder.id:
                self._loss = (
                    f"{self._location}: another run took over: {found.run}, process {found.pid} on {found.host}"
                )
            return self._loss

    def release(self) -> None:
        """Give the lease back. Otherwise the next run would wait until the heartbeat stands still."""
        self._ended.set()
        self._thread.join(SECONDS_BETWEEN_BEATS)
        with contextlib.suppress(UserError, OSError):
            if self.loss() is None:
                self._file.replace(self._holder, None)

    def _acquire(self) -> None:
        seen, seen_at = None, time.monotonic()
        while True:
            found = self._file.read()
            stands_still = found == seen and time.monotonic() - seen_at > SECONDS_UNTIL_DEAD
            if found is None or _is_dead(found) or _is_before(found, self._holder) or stands_still:
                if self._file.replace(found, self._holder):
                    return
            elif _is_alive(found) or (seen is not None and found != seen):
                raise LocationInUse(
                    f"{self._location}: another run writes here: {found.run}, process {found.pid} on {found.host}. "
                    "Stop that run, or give this job another name or checkpoint.location"
                )
            else:
                if seen is None:
                    print(f"{self._location}: waiting for a heartbeat of {found.run} on {found.host}", flush=True)
                    seen, seen_at = found, time.monotonic()
                time.sleep(1)

    def _keep(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_BEATS):
            # While storage fails, no other run can take the lease either.
            with contextlib.suppress(UserError, OSError):
                self._beat()
                if self.loss():
                    self._on_loss()
                    return

    def _beat(self) -> None:
        following = replace(self._holder, beat=self._holder.beat + 1)
        with self._lock:
            # Somebody may have deleted the directory, and the lease with it.
            if self._file.replace(self._holder, following) or self._file.replace(None, following):
                self._holder = following


class _OnDisk:
    """The file of a lease on a file system."""

    def __init__(self, location: str) -> None:
        self._path = Path(location) / FILE

    def read(self) -> LeaseHolder | None:
        """Return the process that has the lease, or None."""
        try:
            return _parsed(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failure("read", error) from error

    def replace(self, old: LeaseHolder | None, new: LeaseHolder | None) -> bool:
        """Give the lease to `new`, or delete it, if it is still that of `old`. Return whether it was."""
        try:
            return self._replace(old, new)
        except OSError as error:
            raise self._failure("written", error) from error

    def _failure(self, done: str, error: OSError) -> StorageFailed:
        problem = f"{self._path.parent}: the lease of the run cannot be {done}: {error.strerror}"
        other = "name another checkpoint.location or another run"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            user = f"let the user of this job (ID {os.geteuid()}) write there"
            return StorageDenied(f"{problem}. Mount the file system read-write, {user}, or {other}")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFull(f"{problem}. Delete files there, or {other}")
        return StorageFailed(f"{problem}. Repair the directory, or {other}")

    def _replace(self, old: LeaseHolder | None, new: LeaseHolder | None) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        guard = os.open(self._path.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(guard, fcntl.LOCK_EX)
            if self.read() != old:
                return False
            if new is None:
                self._path.unlink(missing_ok=True)
            else:
                location_files.write(str(self._path), json.dumps(asdict(new)).encode())
            return True
        finally:
            os.close(guard)


class _InS3:
    """The file of a lease in S3. Writes are conditional on the ETag that was read last."""

    def __init__(self, location: str) -> None:
        self._location = location_files.join(location, FILE)
        self._etag: str | None = None

    def read(self) -> LeaseHolder | None:
        """Return the process that has the lease, or None."""
        found = location_files.read_with_etag(self._location)
        self._etag = found[1] if found else None
        return _parsed(found[0]) if found else None

    def replace(self, old: LeaseHolder | None, new: LeaseHolder | None) -> bool:
        """Give the lease to `new`, or delete it, if it is still that of `old`. Return whether it was."""
        if self.read() != old:
            return False
        if new is None:
            location_files.delete(self._location.rpartition("/")[0], [FILE])
            return True
        etag = location_files.write_if(self._location, json.dumps(asdict(new)).encode(), self._etag)
        # The answer to an earlier attempt of the request may have been lost.
        return etag is not None or self.read() == new


def _parsed(content: bytes) -> LeaseHolder:
    """Return the process in a file. A torn file is that of a dead process."""
    try:
        values: dict[str, Any] = json.loads(content)
        return LeaseHolder(**values | {"agents": tuple(values.get("agents", ()))})
    except (ValueError, TypeError, AttributeError):
        return LeaseHolder("", "unknown", "", "", 0, 0)


def _is_here(holder: LeaseHolder) -> bool:
    return holder.machine == _this_machine()


def _is_dead(holder: LeaseHolder) -> bool:
    """Return whether a process is known to have ended."""
    return not holder.id or (_is_here(holder) and _started(holder.pid) != holder.started)


def _is_before(found: LeaseHolder, mine: LeaseHolder) -> bool:
    """Return whether a process belongs to an earlier start of this run, which Slurm or torchrun has ended.

    Slurm starts a job again when it has ended it on every node that it can reach. A torchrun agent that started ranks
    with that process has ended its ranks, and has started ranks of this run. A process on a lost node may continue. It
    looks at the lease before it writes, as every process does.
    """
    if set(found.agents) & set(mine.agents):
        return True
    return mine.slurm_job != "" and found.slurm_job == mine.slurm_job and found.slurm_start < mine.slurm_start


def _is_alive(holder: LeaseHolder) -> bool:
    """Return whether a process is known to run."""
    return bool(holder.id) and _is_here(holder) and _started(holder.pid) == holder.started


def _started(pid: int) -> int | None:
    """Return the start of a process in clock ticks since the boot, or None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
