"""A program that hangs: it prints nothing, takes no step, and does no work, for longer than its own steps let expect.

The node with rank 0 knows the steps, and decides. It first asks the other nodes whether they work, and then tells them,
so that their processes write their stacks, too. A program that has not said two steps is not ended, because nothing
says how long it may be silent.
"""

import time
from collections.abc import Callable
from pathlib import Path

from trainway.launch.node.other_nodes import OtherNodes
from trainway.launch.node.process_tree import still_running
from trainway.launch.node.run_state import NodeState
from trainway.launch.node.signs_of_work import SignsOfWork

# An evaluation takes as long as many steps, and one takes as long as another.
_STEPS, _SILENCES = 20, 3
_SECONDS_BETWEEN_SIGNS = 30.0
_SECONDS_BETWEEN_LOOKS_AT_FILE = 5.0
# The end of this node can end the others, which must have written their stacks before.
_SECONDS_TO_HEAR = _SECONDS_BETWEEN_LOOKS_AT_FILE + 1
# A longer time between two looks is one in which this process was stopped as well.
_LONGEST_LOOK = 5.0


class Silence:
    """How long a program is silent, and how long it may be.

    `least` is the time in seconds that every program may be silent, or 0 for a program that is never ended. `told` is
    the file that tells all nodes of a program that hangs. `rank` is the index of this node. `has_others` says whether
    the run has other nodes.
    """

    def __init__(
        self,
        least: float,
        state: NodeState,
        told: Path,
        rank: int = 0,
        has_others: bool = False,
        signs: "Callable[[], SignsOfWork]" = SignsOfWork,
    ) -> None:
        self._least, self._state, self._has_others = least, state, has_others
        self._others = OtherNodes(told, rank)
        self._told_at, self._why = 0.0, ""
        self._begin, self._signs = signs, signs()
        self._is_heard, self._is_reported = False, False
        self._stepped: float | None = None
        self._at = time.monotonic()
        self._next_file = 0.0
        self._since_sign = 0.0
        # In seconds: without output and step, without work within that time, and the longest that ended by itself.
        self._quiet = self._idle = self._longest = 0.0

    def hear(self) -> None:
        """Take note that the program has printed something."""
        self._is_heard = True

    def close(self) -> None:
        """End what looks for signs of work. Call it before the program is waited for."""
        self._signs.close()

    def look(self) -> "str | None":
        """Return why the program hangs, or None. Call it all the time."""
        if not self._least:
            return None
        now = time.monotonic()
        if not self._state.leads:
            return self._listen(now)
        if self._why:
            return self._why if now >= self._told_at + _SECONDS_TO_HEAR else None
        seconds, self._at = min(now - self._at, _LONGEST_LOOK), now
        if self._is_heard or self._state.stepped != self._stepped:
            self._is_heard, self._stepped = False, self._state.stepped
            if self._state.step_seconds is not None:
                self._longest = max(self._longest, self._quiet)
            self._quiet = self._idle = self._since_sign = 0.0
            self._signs.close()
            self._signs = self._begin()
        self._quiet += seconds
        why = self._decide(seconds)
        if why is None or not self._others.tell(why) or not self._has_others:
            return why
        self._told_at, self._why = now, why
        return None

    def _decide(self, seconds: float) -> "str | None":
        limit = self._limit()
        if self._quiet < limit / 2:
            return None
        self._idle += seconds
        self._since_sign += seconds
        if self._since_sign >= min(_SECONDS_BETWEEN_SIGNS, limit / 10):
            self._since_sign = 0.0
            others_work = self._has_others and self._others.work()
            if self._signs.look() or others_work:
                self._idle = 0.0
        if self._idle < limit / 2 or self._quiet < limit:
            return None
        why = f"for {_time(self._quiet)} it has printed nothing, taken no step, and done no work"
        if self._state.step_seconds is None:
            if not self._is_reported:
                self._is_reported = True
                print(
                    f"trainway: {why}. Its steps have no pace yet, and it is not ended: {', '.join(still_running())}",
                    flush=True,
                )
            return None
        return f"the program hangs: {why}, and may do so for {_time(limit)}"

    def _limit(self) -> float:
        pace = self._state.step_seconds or 0.0
        return max(self._least, _STEPS * pace, _SILENCES * self._longest)

    def _listen(self, now: float) -> "str | None":
        """Answer the node that leads, and return why the program hangs, if that node says so."""
        if now < self._next_file:
            return None
        self._next_file = now + _SECONDS_BETWEEN_LOOKS_AT_FILE
        if self._others.have_asked() and self._signs.look():
            self._others.answer()
        return self._others.hang()


def _time(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
