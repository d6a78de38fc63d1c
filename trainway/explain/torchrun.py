"""Evidence from torchrun about the processes it started: its final summary, and its log directories.

torch/distributed/elastic/multiprocessing/errors/__init__.py (_FAILURE_FORMAT_TEMPLATE) and api.py of PyTorch 2.13: its
log directory has <run id>_<random>/attempt_<n>/<local rank>/stdout.log and stderr.log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from trainway.explain.evidence import Exit, Log, signal_status

_FAILURE = re.compile(
    r"time +: (?P<time>\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)\s*\n"
    r".*?host +: (?P<host>\S+)\s*\n"
    r".*?rank +: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)\s*\n"
    r".*?exitcode +: (?P<code>-?\d+)"
)


def exits_in(log: Log) -> Iterator[Exit]:
    """Yield the exit statuses of processes from torchrun's summary in a log."""
    for found in _FAILURE.finditer(log.text):
        yield Exit(
            status=signal_status(int(found["code"])),
            name=log.name,
            node=found["host"],
            rank=int(found["rank"]),
            local_rank=int(found["local"]),
            attempt=log.attempt,
            time=datetime.strptime(found["time"], "%Y-%m-%d_%H:%M:%S").replace(tzinfo=UTC),
        )
