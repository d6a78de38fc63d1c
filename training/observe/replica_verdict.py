"""Determine which of two replicas was wrong, from the steps that the restarted run repeats.

Two replicas that differ do not show which of them is wrong. But the run restarts from a checkpoint on which they
agreed, and its steps are deterministic. Rank 0 therefore saves the sums of both replicas in the directory of the run.
The restarted run repeats the step, and computes the correct sums. The rank with other sums was wrong.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

FILE = "replicas-in-doubt.json"


@dataclass(frozen=True)
class Doubt:
    """Replicas of one part of the weights that differed after a step, without a majority."""

    step: int
    ranks: tuple[int, ...]
    devices: tuple[str, ...]
    """The node and the device of each rank."""
    blocks: tuple[int, ...]
    """The blocks of weights whose sums differed."""
    sums: tuple[tuple[int, ...], ...]
    """The sums of these blocks on each rank: [ranks, blocks]."""

    def wrong(self, sums: Tensor) -> tuple[int, ...]:
        """Return the indexes in `ranks` of the ranks that were wrong.

        `sums` has the sums of all blocks after the repeated step: [blocks].
        """
        if max(self.blocks) >= len(sums):
            return ()
        right = tuple(sums[list(self.blocks)].tolist())
        return tuple(index for index, each in enumerate(self.sums) if each != right)


def keep(doubts: Sequence[Doubt], run: Path) -> None:
    """Save the doubts in the directory of the run. A write that fails is ignored, and the run gives no verdict."""
    part = run / f"{FILE}.part"
    with contextlib.suppress(OSError):
        part.write_text(json.dumps([asdict(each) for each in doubts]), encoding="utf-8")
        part.replace(run / FILE)


def kept(run: Path) -> list[Doubt]:
    """Return the doubts of an earlier attempt. Every rank calls this. Rank 0 reads the file and broadcasts it."""
    found: list[list[Doubt]] = [[]]
    if dist.get_rank() == 0 and (run / FILE).exists():
        found = [[_parsed(each) for each in json.loads((run / FILE).read_text(encoding="utf-8"))]]
    dist.broadcast_object_list(found, src=0)
    return found[0]


def verdict(doubt: Doubt, wrong: Sequence[int]) -> str:
    """Return a sentence about replicas that differed. `wrong` has the indexes of the wrong ranks."""
    named = [f"{rank} ({device})" for rank, device in zip(doubt.ranks, doubt.devices, strict=True)]
    if not 0 < len(wrong) < len(named):
        return f"ranks {', '.join(named)} all had other weights than now"
    plural = "s" if len(wrong) > 1 else ""
    return f"rank{plural} {', '.join(named[index] for index in wrong)} had wrong weights"


def _parsed(values: dict[str, Any]) -> Doubt:
    lists = ("ranks", "devices", "blocks")
    sums = tuple(map(tuple, values["sums"]))
    return Doubt(**values | {name: tuple(values[name]) for name in lists} | {"sums": sums})
