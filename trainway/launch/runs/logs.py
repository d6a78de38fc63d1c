"""What a run's processes wrote, in the layout of torchrun's --log-dir: <run>/attempt_<n>/<local rank>/stderr.log."""

from __future__ import annotations

import re
from pathlib import Path

# The line of an exception, as Python ends a traceback with it. PyTorch puts the rank before each line of one.
_RANK = re.compile(r"^\[rank\d+\]: ?")
_EXCEPTION = re.compile(r"^(\w+\.)*\w*(Error|Exception|Exit|Interrupt|Timeout)(: |$)")
# A progress bar, as tqdm draws it.
_BAR = re.compile(r"\d+%\|.*\|")


def last_words(run: Path) -> str | None:
    """Return the last line on stderr of the newest attempt, or None if no rank wrote one.

    It is that of the lowest rank which ended with an exception, or else of the lowest rank that wrote one. The others
    were often ended by their launcher, while they drew a progress bar.
    """
    attempt = newest_attempt(run)
    if attempt is None:
        return None
    # Of a rank, the newest file first (trainway/launch/node/log_file.py).
    files = sorted(attempt.glob("*/stderr*.log"), key=lambda log: log.name, reverse=True)
    last = dict[int, str]()
    for file in files:
        if line := None if int(file.parent.name) in last else _last_line(file):
            last[int(file.parent.name)] = line
    lines = [last[rank] for rank in sorted(last)]
    raised = (line for line in lines if _EXCEPTION.match(line))
    return next(raised, lines[0] if lines else None)


def _last_line(log: Path) -> str | None:
    """Return the last line of a rank's log that is no progress bar, without the rank before it."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = (_RANK.sub("", line).strip() for line in reversed(re.split(r"[\r\n]+", text)))
    return next((line for line in lines if line and not _BAR.search(line)), None)


def files_of_newest_attempt(run: Path) -> list[Path]:
    """Return the log files of the newest attempt, one for each local rank and stream."""
    starts = _starts(run)
    if starts:
        return list(starts[-1].glob("*/attempt_*/*/std*.log"))
    attempt = newest_attempt(run)
    return list(attempt.glob("*/std*.log")) if attempt else []


def files_of_attempt(run: Path, attempt: int) -> list[Path]:
    """Return the log files of one start of a program with a starter, from 1. Empty if there are none."""
    return list((run / "logs" / f"start-{attempt - 1}").glob("*/attempt_*/*/std*.log"))


def newest_attempt(run: Path) -> Path | None:
    """Return the directory of the newest attempt, with one for each local rank. None before the first attempt."""
    starts = _starts(run)
    attempts = starts[-1].glob("*/attempt_*") if starts else (run / "logs").glob("*/attempt_*")
    # What the launcher of the ranks says is no rank's.
    return max(attempts, key=lambda attempt: (attempt.parent.name != "program", attempt.stat().st_mtime), default=None)


def failure(run: Path) -> str | None:
    """Return why the newest attempt failed, in the words of the process that started the program."""
    found = sorted((run / "attempts").glob("*/failure"), key=lambda file: int(file.parent.name))
    newest = max((int(each.name) for each in (run / "attempts").glob("[0-9]*")), default=0)
    is_newest = found and int(found[-1].parent.name) == newest
    return found[-1].read_text(encoding="utf-8").strip() if is_newest else None


def _starts(run: Path) -> list[Path]:
    """Return the directories of the starts of a program with a starter (trainway/launch/node/node_of_run.py)."""
    return sorted((run / "logs").glob("start-[0-9]*"), key=lambda each: int(each.name.removeprefix("start-")))
