"""A host of a rendezvous is lost when it sends no heartbeat, whatever its clock says."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

NOW = datetime(2026, 11, 29, tzinfo=UTC)
SECONDS_UNTIL_LOST = 8


class Backend:
    """The store of a rendezvous, with the state that was written last."""

    def __init__(self) -> None:
        self._content, self._number = b"", 0

    def get_state(self) -> tuple[bytes, int] | None:
        return (self._content, self._number) if self._number else None

    def set_state(self, content: bytes, token: int | None) -> tuple[bytes, int, bool]:
        is_newest = (token or 0) == self._number
        if is_newest:
            self._content, self._number = content, self._number + 1
        return self._content, self._number, is_newest


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the host that looks, which a test sets."""
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    from training.hosts import rendezvous

    now = [0.0]
    monkeypatch.setattr(rendezvous, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(rendezvous.SteadyClock, "_began", 0.0)
    monkeypatch.setattr(rendezvous.SteadyClock, "_began_at", NOW)
    monkeypatch.setattr(dynamic_rendezvous, "datetime", rendezvous.SteadyClock)
    return now


def settings() -> Any:
    return SimpleNamespace(
        run_id="run",
        min_nodes=1,
        max_nodes=3,
        keep_alive_interval=timedelta(seconds=1),
        keep_alive_max_attempt=SECONDS_UNTIL_LOST,
        timeout=SimpleNamespace(last_call=timedelta(seconds=30)),
    )


def holder(backend: Backend) -> Any:
    from training.hosts.rendezvous import StateHolder

    return StateHolder(backend, settings(), cache_duration=0)


def write(backend: Backend, **changes: Any) -> None:
    """Change the state as another host does."""
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import _RendezvousState

    found = backend.get_state()
    state = pickle.loads(found[0]) if found else _RendezvousState()
    for name, value in changes.items():
        setattr(state, name, value)
    assert backend.set_state(pickle.dumps(state), found[1] if found else None)[2]


@pytest.mark.parametrize("ahead", [0, 600, -600, 86_400, -86_400])
def test_a_host_is_lost_when_its_heartbeat_has_not_changed_for_the_time_of_a_keep_alive(
    monotonic: list[float], ahead: float
) -> None:
    backend = Backend()
    looks = holder(backend)
    for second in range(3):
        monotonic[0] = second
        beat = NOW + timedelta(seconds=second + ahead)
        write(backend, last_heartbeats={"other": beat}, participants={"other": 0})
        looks.sync()
        assert looks.state.last_heartbeats == {"other": beat}, "it is written back as it was"
    monotonic[0] = second + SECONDS_UNTIL_LOST
    looks.sync()
    assert looks.state.participants == {"other": 0}
    monotonic[0] += 0.1
    looks.sync()
    assert looks.state.last_heartbeats == looks.state.participants == {}


@pytest.mark.parametrize("ahead", [0, 600, -600, 86_400, -86_400])
def test_the_last_call_is_as_long_on_a_host_with_another_clock(monotonic: list[float], ahead: float) -> None:
    from training.hosts.rendezvous import SteadyClock

    backend = Backend()
    looks = holder(backend)
    written = NOW + timedelta(seconds=30 + ahead)
    write(backend, deadline=written)
    for second in (0, 10, 29):
        monotonic[0] = second
        looks.sync()
        assert looks.state.deadline == NOW + timedelta(seconds=30)
        # A heartbeat of this host writes the whole state.
        looks.mark_dirty()
        assert looks.sync()
        found = backend.get_state()
        assert found and pickle.loads(found[0]).deadline == written
    monotonic[0] = 31
    looks.sync()
    assert looks.state.deadline < SteadyClock.now()
    later = written + timedelta(seconds=5)
    write(backend, deadline=later)
    looks.sync()
    assert looks.state.deadline == NOW + timedelta(seconds=61), "another deadline is a last call of its own"
    looks.state.deadline = None
    looks.mark_dirty()
    looks.sync()
    found = backend.get_state()
    assert found and pickle.loads(found[0]).deadline is None, "a complete rendezvous has none"


def test_the_time_of_a_host_does_not_follow_its_clock(monotonic: list[float]) -> None:
    from training.hosts.rendezvous import SteadyClock

    before = SteadyClock.now(UTC)
    monotonic[0] = 2.5
    assert SteadyClock.now(UTC) - before == timedelta(seconds=2.5)


def test_times_of_an_earlier_pytorch_have_no_zone(monotonic: list[float]) -> None:
    from training.hosts.rendezvous import SteadyClock, WrittenTimes

    seen, now = WrittenTimes(), SteadyClock.utcnow()
    assert now == NOW.replace(tzinfo=None)
    beat = now + timedelta(days=1)
    assert seen.first_seen({"other": beat}) == {"other": now}
    monotonic[0] = 5
    assert seen.first_seen({"other": beat, "third": beat}) == {"other": now, "third": now + timedelta(seconds=5)}
