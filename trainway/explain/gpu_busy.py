"""Find processes that are refused GPU memory, because other processes hold most of it.

PyTorch reports the memory of a GPU, the free memory, and the memory of the process itself. The rest is held by others.
https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDACachingAllocator.cpp (read 2026-11-30)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainway.explain.evidence import Evidence
from trainway.explain.log_line_at import log_line_at
from trainway.explain.matches import Match, quote_log_line
from trainway.explain.rules import Level, load_rules

_BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = r"[\d.]+ (?:bytes|[KMG]iB)"
# Of PyTorch before 2.1, and since.
_REFUSED = (
    re.compile(
        rf"CUDA out of memory\. Tried to allocate {_SIZE} \(GPU \d+; (?P<total>{_SIZE}) total capacity; "
        rf"(?P<allocated>{_SIZE}) already allocated; (?P<free>{_SIZE}) free; (?P<own>{_SIZE}) (?P<kind>reserved|cached)"
    ),
    re.compile(
        rf"CUDA out of memory\. Tried to allocate {_SIZE}\. GPU \d+ has a total capacity of (?P<total>{_SIZE}) of "
        rf"which (?P<free>{_SIZE}) is free\.[^\n]*?[Tt]his process has (?P<own>{_SIZE}) memory in use"
    ),
)
# A process has up to 2 GiB beside PyTorch's own memory: the CUDA context, and buffers of NCCL.
_OF_OTHERS = 0.25


def gpu_busy_matches(evidence: Evidence, year: int) -> Iterator[Match]:
    """Yield a match for each log in which other processes hold more than a quarter of the GPU."""
    rule = next(rule for rule in load_rules() if rule.name == "gpu-busy")
    for log in evidence.logs:
        for found in (each for pattern in _REFUSED for each in pattern.finditer(log.text)):
            of = found.groupdict()
            total, free, own = (_bytes(of[name]) for name in ("total", "free", "own"))
            if of.get("kind") == "cached":
                # What PyTorch before 1.5 calls cached is beside what is allocated.
                own += _bytes(of["allocated"])
            others = total - free - own
            if others <= _OF_OTHERS * total:
                continue
            quote = quote_log_line(log_line_at(log, found.start(), year))
            cause = (
                f"other processes hold {others / 2**30:.0f} of the {total / 2**30:.0f} GiB of the GPU of {quote.who}, "
                f"whose own process has {own / 2**30:.1f}"
            )
            yield Match(rule.name, Level.CAUSE, cause, rule.remedy, rule.source, quote)


def _bytes(size: str) -> float:
    number, unit = size.split()
    return float(number.rstrip(".")) * _BYTES[unit]
