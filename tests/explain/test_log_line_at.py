"""Who wrote a line, and when, is read from what each tool puts before it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trainway.explain.evidence import Log
from trainway.explain.log_line_at import bare, log_line_at, time_in


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("2026-11-21T10:14:30.250Z stderr F words", datetime(2026, 11, 21, 10, 14, 30, 250000, UTC)),
        ("2026-11-21 10:14:30,250 ERROR words", datetime(2026, 11, 21, 10, 14, 30, 250000, UTC)),
        ("2025-05-16T16:40:02.222-07:00 words", datetime(2025, 5, 16, 23, 40, 2, 222000, UTC)),
        (
            "[rank0]:[E1121 10:14:31.408271257 ProcessGroupNCCL.cpp:683] x",
            datetime(2026, 11, 21, 10, 14, 31, 408271, UTC),
        ),
        # PyTorch's own logging writes a month of one digit.
        ("[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] x", datetime(2026, 3, 21, 2, 7, 8, 408271, UTC)),
        ("W1121 15:28:09.828000 4760 torch/distributed", datetime(2026, 11, 21, 15, 28, 9, 828000, UTC)),
        ("Nov 21 10:14:28 ip-10-0-16-7 kernel: NVRM: Xid", datetime(2026, 11, 21, 10, 14, 28, 0, UTC)),
        ("[Fri Apr  5 21:29:39 2024] NVRM: Xid", datetime(2024, 4, 5, 21, 29, 39, 0, UTC)),
        ("step=2000/100000 loss=2.9113", None),
        ("2026-13-45T99:99:99 is no time", None),
    ],
)
def test_times_of_every_tool_are_read(line: str, time: datetime | None) -> None:
    assert time_in(line, 2026) == time


@pytest.mark.parametrize(
    ("line", "rank", "local_rank", "node"),
    [
        ("[rank11]: ValueError: x", 11, None, None),
        ("[default3]:ValueError: x", None, 3, None),
        ("[default3]:[rank11]: ValueError: x", 11, 3, None),
        ("[ip-10-0-16-7 3] ValueError: x", None, 3, "ip-10-0-16-7"),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 6] Process group", 6, None, None),
        ("2: p5-dy-gpu-4:930643:930850 [7] NCCL INFO NET/OFI", None, None, "p5-dy-gpu-4"),
        ("Nov 21 10:14:28 ip-10-0-16-7 kernel: NVRM: Xid", None, None, "ip-10-0-16-7"),
        ("slurmstepd: error: *** JOB 88 ON ip-10-0-16-7 CANCELLED AT 2026", None, None, "ip-10-0-16-7"),
    ],
)
def test_rank_and_node_are_what_the_line_says(
    line: str, rank: int | None, local_rank: int | None, node: str | None
) -> None:
    log_line = log_line_at(Log("a", line), 0, 2026)
    assert (log_line.rank, log_line.local_rank, log_line.node) == (rank, local_rank, node)


def test_a_line_without_a_time_has_that_of_the_line_above() -> None:
    text = "2026-11-21T10:14:30Z one\n  File x\nValueError: y\n"
    found = log_line_at(Log("a", text), text.index("ValueError"), 2026)
    assert found.time == datetime(2026, 11, 21, 10, 14, 30, 0, UTC)


def test_what_stands_before_a_line_is_taken_off() -> None:
    assert bare("[default3]:[rank11]: ValueError: x") == "ValueError: x"
    assert bare("0: [rank1]: ValueError: x") == "ValueError: x"
    assert bare("[ip-10-0-16-7 11] ValueError: x") == "ValueError: x"
    assert bare("[1,0]<stdout>:# Out of bounds values") == "# Out of bounds values"
