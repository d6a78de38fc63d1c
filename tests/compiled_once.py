"""Compilation of each test file by one worker, whose bytecode the other workers read."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from pathlib import Path
from zlib import crc32

import pytest

LOCKS = Path(__file__).parents[1] / "build" / "collection.lock"


class CompiledOnce:
    """A plugin of the workers of pytest-xdist, each of which collects all tests.

    Workers start together. In a new checkout, all of them would compile the same file at the same moment, with the
    modules that it imports: 17 CPU seconds in each worker (2026-11-29).
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Hold the lock of a test file while a worker imports it. Each test file has one byte of the lock file."""
        if not isinstance(collector, pytest.Module):
            return (yield)
        LOCKS.parent.mkdir(exist_ok=True)
        with LOCKS.open("a") as locks:
            fcntl.lockf(locks, fcntl.LOCK_EX, 1, crc32(collector.nodeid.encode()))
            return (yield)
