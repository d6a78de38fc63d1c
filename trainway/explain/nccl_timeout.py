"""Find the ranks of a collective that timed out, and the rank that they waited for.

PyTorch's watchdog reports the ranks that waited. The rank that they waited for reports nothing. It is the rank whose
last enqueued work is behind the others', or else the one that does not report at all.
https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (read 2026-11-21)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trainway.explain.evidence import Evidence
from trainway.explain.log_line_at import LogLine, bare, line_around, log_line_at
from trainway.explain.matches import Match, quote_log_line
from trainway.explain.rules import Level

SOURCE = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)"
    r".*?ran for (?P<ms>\d+) milliseconds"
)
_STATUS = re.compile(
    r"(?:PG (?:ID )?(?P<group>\d+)\b.*?)?[Rr]ank (?P<rank>\d+)\].*?"
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)
_WORLD = re.compile(r"\bn[rR]anks (\d+)|\bworld_size=(\d+)")
_MOST_NAMED = 8


def nccl_timeout_matches(evidence: Evidence, year: int) -> Iterator[Match]:
    """Yield one match for the first collective that timed out, if there is one."""
    found = [
        (log_line_at(log, each.start(), year), each) for log in evidence.logs for each in _TIMEOUT.finditer(log.text)
    ]
    if not found:
        return
    # A collective with a later sequence number waits because an earlier one does.
    first = min(found, key=lambda pair: (int(pair[1]["seq"]), pair[0].time is None, pair[0].time or 0, _rank(pair[0])))
    log_line, timeout = first
    waited = sorted({_rank(each) for each, other in found if other["seq"] == timeout["seq"] and _rank(each) >= 0})
    behind = _behind(_enqueued(evidence, year)) or _silent(waited, _world(evidence))
    seconds = int(timeout["ms"]) // 1000
    what = f"{timeout['op']} number {timeout['seq']} did not end within {seconds} s"
    if behind:
        cause = f"{what}: {_ranks(behind)} did not join the others in it{_last_words(evidence, behind[0])}"
        remedy = "look at that rank: its own error, its node's kernel log, where it stands (`py-spy dump`), its data"
    else:
        cause = f"{what}, and no rank is known to be missing in it"
        remedy = (
            "where all ranks were in it, the network between the nodes is why: `trainway verify`; "
            "`torchfrtrace` reads what each rank was at from the files flight-recorder-rank-* of the run"
        )
    yield Match("nccl-timeout", Level.SYMPTOM, cause, remedy, SOURCE, quote_log_line(log_line))


def _rank(log_line: LogLine) -> int:
    return -1 if log_line.rank is None else log_line.rank


def _enqueued(evidence: Evidence, year: int) -> Mapping[str, Mapping[int, int]]:
    """Return, by process group, the last work that each rank enqueued, by the latest log line about it."""
    told: dict[str, dict[int, int]] = {}
    for log in evidence.logs:
        for each in _STATUS.finditer(log.text):
            rank = _rank(log_line_at(log, each.start(), year))
            told.setdefault(each["group"] or "0", {})[rank if rank >= 0 else int(each["rank"])] = int(each["enqueued"])
    return told


def _behind(told: Mapping[str, Mapping[int, int]]) -> Sequence[int]:
    """Return the ranks of a group that have enqueued less work than the others."""
    for works in told.values():
        most = max(works.values())
        if late := sorted(rank for rank, work in works.items() if work < most):
            return late if len(late) <= len(works) // 2 else ()
    return ()


def _silent(waited: Sequence[int], world: int | None) -> Sequence[int]:
    """Return the ranks that did not report the timeout, if they are few."""
    silent = sorted(set(range(world)) - set(waited)) if world else []
    return silent if waited and 0 < len(silent) <= max(1, len(waited)) else ()


def _world(evidence: Evidence) -> int | None:
    sizes = [int(each[1] or each[2]) for log in evidence.logs for each in _WORLD.finditer(log.text)]
    return max(sizes, default=None)


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks[:_MOST_NAMED]))
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"rank {named}" if len(ranks) == 1 else f"ranks {named}{more}"


def _last_words(evidence: Evidence, rank: int) -> str:
    """Return the last line of that rank if it has a log of its own."""
    for log in evidence.logs:
        if log.rank == rank and log.text.strip():
            start, end = line_around(log.text, len(log.text.rstrip()) - 1)
            return f"; its last words: {bare(log.text[start:end])[:160]}"
    return ""
