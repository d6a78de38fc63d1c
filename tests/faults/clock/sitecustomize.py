"""Shift the clock of a program, as a host with a wrong clock does. Python imports this file first from PYTHONPATH.

The file that CLOCK names has the seconds by which the clock is ahead, and a test changes them while the program runs.
All that Python code reads is shifted: the functions of `time`, and `datetime`. The times of files stay those of the
machine, as on a file system whose server sets them. The monotonic clock stays, too.
"""

import datetime
import os
import time
from pathlib import Path
from typing import Any, TypeAlias

_time, _time_ns = time.time, time.time_ns
_datetime: TypeAlias = datetime.datetime


def _ahead() -> float:
    return float(Path(os.environ["CLOCK"]).read_text(encoding="utf-8"))


class _OfAnyDatetime(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _datetime)


class _Shifted(_datetime, metaclass=_OfAnyDatetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        """Return the shifted time."""
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        """Return the shifted time in UTC, without a time zone."""
        return cls.now(datetime.UTC).replace(tzinfo=None)


if "CLOCK" in os.environ:
    time.time = lambda: _time() + _ahead()
    time.time_ns = lambda: _time_ns() + round(_ahead() * 1e9)
    # pickle looks for a class by its name.
    _Shifted.__module__, _Shifted.__qualname__ = "datetime", "datetime"
    datetime.datetime = _Shifted  # type: ignore[misc] # the point of this file
