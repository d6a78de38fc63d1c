"""The report of a run: one HTML page that opens from disk and makes no network requests.

Importing this package is cheap: the functions import the modules that draw and render.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainway.report.errors import RunUnreadable

if TYPE_CHECKING:
    from trainway.report.history import Summary

__all__ = ["RunUnreadable", "summarize", "write_report"]


def write_report(run: Path) -> Path:
    """Write `run`/report.html from the contents of the run directory, and return its path.

    The same run directory gives the same page, byte for byte.

    Raises:
        RunUnreadable: the directory is not that of a run, a file in it is damaged, or the page cannot be written.
    """
    from trainway.report.page import render

    page, text = run / "report.html", render(run)
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunUnreadable(
            page, "the report cannot be written", error.strerror or str(error), "make the run directory writable"
        ) from error
    return page


def summarize(run: Path) -> Summary:
    """Return the key figures of a run, which fit on a line, without loading the charts or the page.

    Raises:
        RunUnreadable: the directory is not that of a run, or its metrics are damaged.
    """
    from trainway.report.events import read_events
    from trainway.report.history import make_history

    return make_history(read_events(run)).summary()
