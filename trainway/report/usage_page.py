"""The page about what teams used in a month."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainway.report import words
from trainway.report.page import template


def write_usage_page(document: dict[str, Any], page: Path) -> Path:
    """Write the page of a document of `trainway.report.usage`, and return its path.

    Raises OSError if the page cannot be written.
    """
    figures: dict[str, Callable[..., Any]] = {
        "hours": _hours,
        "usd": _usd,
        "known_share": _known_share,
        "named": _named,
    }
    text = template("usage_page.html", figures).render(document=document, name=document["month"])
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return page


def _hours(hours: float) -> str:
    return f"{hours:,.1f}"


def _usd(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:,.2f}"


def _known_share(known: dict[str, Any], runs: int) -> str:
    """Return a share, and of how many runs it is, for example `97.3% of 4 of 5 runs`."""
    share = "unknown" if known["share"] is None else words.percent(known["share"])
    return f"{share} ({known['runs']:,} of {words.plural(runs, 'run')})"


def _named(team: str | None) -> str:
    return "no team" if team is None else team
