"""Live platforms: one of each orchestrator for all tests of a run, which leave it as they found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import boto3
import pytest

from emulator import Emulator, running
from tests.changes.edit import base
from tests.changes.emulated_account import bootstrap
from tests.changes.live import Live, synthesize_here
from trainway.diff import look

LiveOf = Callable[[str], Live]


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        bootstrap(started)
        yield started


@pytest.fixture
def shell(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """Let commands of the tests ask the emulator, and synthesize in this process. Return the emulator.

    The CDK's variables are left out, because the live platforms are synthesized without them.
    """
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name, value in emulator.environment().items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(look, "synthesize", synthesize_here)
    return emulator


@pytest.fixture(scope="session")
def live_of(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> LiveOf:
    """Return the live platform of an orchestrator, deployed when it is first asked for, and as its base describes it.

    A platform that a test left in another state stays where it is, and the next test gets one of another name.
    """
    found: dict[str, Live] = {}
    number = 0

    def live(orchestrator: str) -> Live:
        nonlocal number
        there = found.get(orchestrator)
        if there is None or there.document != base(there.name, orchestrator):
            number += 1
            there = Live(emulator, tmp_path_factory.mktemp(orchestrator), f"live-{number}")
            there.created = there.edit(base(there.name, orchestrator))
            assert there.created.moved
            found[orchestrator] = there
        return there

    return live
