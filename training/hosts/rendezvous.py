"""torchrun's rendezvous for hosts whose clocks differ, or jump.

Each host writes heartbeats with the time of its own clock into the state of the rendezvous, and each compares those of
the others with its own clock (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py of 2.13.0, `_sanitize`, read
2026-11-29; there are versions whose times have no zone). A host whose clock is ahead by more than the keep-alive takes
all others for dead. A host whose clock jumps back sends no heartbeat until its clock is where it was.

Here, a heartbeat is old when it has not changed for as long by the monotonic clock of the host that reads it.
"""

import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from torch.distributed.elastic.rendezvous import dynamic_rendezvous


class SteadyClock:
    """The time of this host without the jumps of its clock. torchrun's rendezvous uses it as `datetime`."""

    _began, _began_at = time.monotonic(), datetime.now(UTC)

    @classmethod
    def now(cls, zone: tzinfo = UTC) -> datetime:
        """Return the time at which this process began, plus the seconds since then."""
        return (cls._began_at + timedelta(seconds=time.monotonic() - cls._began)).astimezone(zone)

    @classmethod
    def utcnow(cls) -> datetime:
        """Return the time in UTC, without a zone."""
        return cls.now().replace(tzinfo=None)


class WrittenTimes:
    """Times that hosts wrote by their own clocks, and when this host first saw each of them by its own."""

    def __init__(self) -> None:
        self._seen: dict[Any, tuple[datetime, datetime]] = {}

    def first_seen(self, written: dict[Any, datetime]) -> dict[Any, datetime]:
        """Return when this host first saw each written time that is still there, in the order of `written`."""
        still = {key: seen for key, seen in self._seen.items() if written.get(key) == seen[0]}
        self._seen = {key: still.get(key) or (value, _now_like(value)) for key, value in written.items()}
        return {key: at for key, (_, at) in self._seen.items()}


class StateHolder(dynamic_rendezvous._BackendRendezvousStateHolder):
    """The state of the rendezvous, in which no time of another host's clock is compared with the clock of this host."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._heartbeats, self._deadlines = WrittenTimes(), WrittenTimes()
        self._written_deadline: datetime | None = None
        self._own_deadline: datetime | None = None

    def sync(self) -> bool | None:
        """Exchange the state with the other hosts. Return whether a change of this host was written, if it had one."""
        # The others wait for the deadline that is written, and not for what it is by the clock of this host.
        if self._state.deadline == self._own_deadline:
            self._state.deadline = self._written_deadline
        has_set: bool | None = super().sync()
        self._written_deadline = self._state.deadline
        if self._state.deadline is not None:
            (seen,) = self._deadlines.first_seen({None: self._state.deadline}).values()
            self._state.deadline = seen + self._settings.timeout.last_call
        self._own_deadline = self._state.deadline
        return has_set

    def _sanitize(self) -> None:
        written = dict(self._state.last_heartbeats)
        self._state.last_heartbeats.update(self._heartbeats.first_seen(written))
        super()._sanitize()
        self._state.last_heartbeats.update({node: written[node] for node in self._state.last_heartbeats})


def _now_like(written: datetime) -> datetime:
    return SteadyClock.now() if written.tzinfo else SteadyClock.utcnow()


def ignore_other_clocks() -> None:
    """Let the rendezvous of this process compare no clocks of two hosts. Call this before it is created."""
    vars(dynamic_rendezvous)["_BackendRendezvousStateHolder"] = StateHolder
    vars(dynamic_rendezvous)["datetime"] = SteadyClock
