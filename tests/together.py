"""How many workers run the tests, and how pytest-xdist divides the files among them."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.selection import ordered_suite, scope_of


def workers(processors: int) -> int:
    """Return two workers for each processor.

    Tests of Slurm, of pods, and of nodes wait for daemons. With three workers, `make test` used 72 % of two processors,
    and with four, 93 % (2026-11-24).
    """
    return 2 * processors


class TogetherScheduling(LoadFileScheduling):  # type: ignore[misc] # it has no types
    """pytest-xdist's `--dist loadfile`, which takes files that share something expensive for one file."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(super()._split_scope(nodeid), ordered_suite(self.config))
