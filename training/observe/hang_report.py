"""What is known about the ranks of a run that hangs, and which of them are suspects."""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple

# Ranks that a sentence names one by one. At size, one failed switch silences hundreds.
_NAMED = 8


@dataclass(frozen=True)
class RankRecord:
    """What a rank says about itself. `position` is where its main thread is, and empty until it is asked.

    A rank that is stopped, or whose host is lost, does not answer, so its record keeps an empty `position`.
    """

    rank: int
    host: str
    pid: int
    parent_pid: int
    step: int
    work: str
    position: str = ""
    beat: int = 0
    """Number of heartbeats that the rank has written."""
    node: str = ""
    """The name by which the scheduler knows the host."""

    def encoded(self) -> str:
        """Return the record as it is in the store."""
        return json.dumps(asdict(self))

    @classmethod
    def decoded(cls, value: bytes) -> "RankRecord":
        """Return the record that the store has."""
        return cls(**json.loads(value))


class Suspects(NamedTuple):
    """The ranks that the others probably wait for, and why, or why no rank is suspected."""

    records: list[RankRecord]
    reason: str


def suspects(records: Sequence[RankRecord]) -> Suspects:
    """Return the ranks that the others probably wait for.

    These are the ranks that do not answer. If all answer, these are the ranks that are furthest behind. If all are in
    the same step, these are the ranks that are where the fewest are, because a collective holds all others in one line.
    """
    silent = [each for each in records if not each.position]
    if silent:
        return Suspects(silent, "does not answer" if len(silent) == 1 else "do not answer")
    furthest = max(each.step for each in records)
    behind = [each for each in records if each.step < furthest]
    if behind:
        return Suspects(behind, "is behind the others" if len(behind) == 1 else "are behind the others")
    there = defaultdict[str, list[RankRecord]](list)
    for each in records:
        there[each.position].append(each)
    fewest, *others = sorted(there.values(), key=len)
    if not others or len(fewest) == len(others[0]):
        return Suspects([], "All ranks answer, and none differs from the others")
    return Suspects(fewest, "is elsewhere than the others" if len(fewest) == 1 else "are elsewhere than the others")


def named_nodes(found: Suspects, nodes: int) -> dict[str, str]:
    """Return why each node of the suspects hangs, for a run of so many nodes.

    Ranks of more than half of the nodes are no fault of these nodes: a switch or storage connects them.
    """
    of_nodes = defaultdict[str, list[RankRecord]](list)
    for each in found.records:
        of_nodes[each.node].append(each)
    if 2 * len(of_nodes) > max(nodes, 2):
        return {}
    return {
        node: f"hang: rank{'s' if len(each) > 1 else ''} {', '.join(str(record.rank) for record in each[:_NAMED])} "
        f"{found.reason}, at step {each[0].step}"
        for node, each in of_nodes.items()
    }


def sentence(work: str, seconds: float, budget: float, found: Suspects, directory: Path) -> str:
    """Return what happened, in which ranks, and where their stacks are."""
    happened = f"{work} has taken {seconds:.0f} s, and may take {budget:.0f} s"
    stacks = f"The stacks of all ranks are in {directory}"
    if not found.records:
        return f"{happened}. {found.reason}. {stacks}"
    named = ", ".join(f"{each.rank} (host {each.host}, process {each.pid})" for each in found.records[:_NAMED])
    rest = f", and {len(found.records) - _NAMED} more" if len(found.records) > _NAMED else ""
    plural = "s" if len(found.records) > 1 else ""
    first = found.records[0]
    where = f", in {first.position}" if first.position else ""
    return f"{happened}. Rank{plural} {named}{rest} {found.reason}, at step {first.step}{where}. {stacks}"


def position_of(thread: int) -> str:
    """Return where a thread of this process is: the innermost line of the training job, and the innermost of all."""
    frame: FrameType | None = sys._current_frames().get(thread)
    if frame is None:
        return "no Python code"
    innermost, ours = _line(frame), None
    while frame is not None and ours is None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "training":
            ours = _line(frame)
        frame = frame.f_back
    return innermost if ours in (None, innermost) else f"{ours} > {innermost}"


def _line(frame: FrameType) -> str:
    module = frame.f_globals.get("__name__", frame.f_code.co_filename)
    return f"{module}:{frame.f_lineno} ({frame.f_code.co_name})"
