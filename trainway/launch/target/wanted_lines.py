"""Which lines of a run's logs a person wants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trainway.spec.errors import UsageError, usage_error

# How the targets mark a line: `[node rank] line`, where the rank is that on its node, or `-` for what starts the ranks.
_MARK = re.compile(r"\[(?P<node>\S+)(?: (?P<rank>\S+))?\] ")


@dataclass(frozen=True)
class WantedLines:
    """A choice of lines. None chooses all.

    `node` and `rank` are those in the mark of a line. `attempt` counts the starts of the program from 1.
    `since_seconds` is the age of the oldest lines in seconds. `tail` is how many of the last lines of each process are
    wanted; with `follow`, what comes later is wanted as well.
    """

    node: str | None = None
    rank: int | None = None
    attempt: int | None = None
    since_seconds: float | None = None
    tail: int | None = None

    def of_processes(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines of the chosen node and rank."""
        if self.node is None and self.rank is None:
            yield from lines
            return
        for line in lines:
            mark = _MARK.match(line)
            if mark and self.takes(mark["node"], mark["rank"]):
                yield line

    def takes(self, node: str, rank: str | None) -> bool:
        """Return whether the lines of a process are wanted."""
        return self.node in (None, node) and (self.rank is None or str(self.rank) == rank)


EVERY_LINE = WantedLines()


def cannot_choose(option: str, run: str, why: str, fix: str) -> UsageError:
    """Return the error for a choice that a target cannot make. `option` is that of `trainway logs`."""
    return usage_error(f"the lines of {run} cannot be chosen by {option}", why=why, fix=fix)
