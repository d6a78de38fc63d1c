"""Measure `trainway explain` on the logs of 64 nodes, beside reading the logs from the disk.

    python -m benchmarks.explaining

The logs have 2 GiB. One rank fails. Explaining and reading alternate (see turns.py), each in its own process. Before
each turn, the benchmark drops the logs from the page cache.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns

NODES, RANKS, MIB, ROUNDS = 64, 8, 32, 9
FAILED = 17
ERROR = (
    "[rank138]: Traceback (most recent call last):\n"
    '[rank138]:   File "/code/train.py", line 10, in <module>\n'
    "[rank138]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)
EXPLAIN = """
import resource, sys
from pathlib import Path
from trainway.explain import evidence_in, explain
(finding, *_) = explain(evidence_in(Path(sys.argv[1])))
assert (finding.name, finding.quote.rank) == ("gpu-memory", 138), finding
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
READ = """
import sys
from pathlib import Path
for file in sorted(Path(sys.argv[1]).iterdir()):
    with file.open("rb", buffering=0) as opened:
        while opened.read(2**20):
            pass
"""


def main() -> None:
    """Measure, and write the result."""
    chosen = arguments("explaining", __doc__).parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        logs = Path(name)
        write(logs)
        kilobytes: list[int] = []
        turns = take_turns(
            {"explain": lambda: explaining(logs, kilobytes), "read": lambda: seconds(READ, logs)[0]}, ROUNDS
        )
    figures: dict[str, Any] = {
        "seconds": {name: Spread.of(each).document() for name, each in turns.items()},
        "explain_over_read": ratios(turns["explain"], turns["read"]).document(),
        "peak_memory_mib": round(max(kilobytes) / 1024),
    }
    record(figures, ["pydantic", "pyyaml"], chosen.out)


def write(directory: Path) -> None:
    """Write a log for each node, in which its ranks report steps."""
    for node in range(NODES):
        with (directory / f"ip-10-0-0-{node}.log").open("w", encoding="utf-8") as log:
            step = 0
            while log.tell() < MIB * 2**20:
                minute, second = step // 60 % 60, step % 60
                log.writelines(
                    f"[rank{node * RANKS + rank}]: 2026-11-30 10:{minute:02}:{second:02},{rank:03} INFO step={step} "
                    f"loss=2.{step % 1000:03} tokens_per_second=12{rank}45 mfu=0.41 grad_norm=0.{step % 97}\n"
                    for rank in range(RANKS)
                )
                step += 1
            if node == FAILED:
                log.write(ERROR)


def explaining(logs: Path, kilobytes: list[int]) -> float:
    """Explain the logs. Add the peak memory, and return the seconds."""
    taken, said = seconds(EXPLAIN, logs)
    kilobytes.append(int(said))
    return taken


def seconds(program: str, logs: Path) -> tuple[float, str]:
    """Run a program on logs that are not in the page cache. Return its duration in seconds, and its output."""
    for file in logs.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program, str(logs)], check=True, capture_output=True, text=True)
    return time.monotonic() - began, done.stdout


if __name__ == "__main__":
    main()
