"""What a run's processes wrote, in the layout of torchrun's --log-dir: <run>/attempt_<n>/<local rank>/stderr.log."""

from __future__ import annotations

from pathlib import Path


def last_words(run: Path) -> str | None:
    """The last line on stderr of the lowest rank that wrote one, in the newest attempt; None if none did."""
    attempt = newest_attempt(run)
    if attempt is None:
        return None
    ranks = sorted(attempt.glob("*/stderr.log"), key=lambda log: int(log.parent.name))
    texts = (log.read_text(encoding="utf-8", errors="replace").strip() for log in ranks)
    return next((text.splitlines()[-1] for text in texts if text), None)


def newest_attempt(run: Path) -> Path | None:
    """The directory of the newest attempt, which has one for each local rank; None before the first."""
    attempts = (run / "logs").glob("*/attempt_*")
    return max(attempts, key=lambda attempt: attempt.stat().st_mtime, default=None)
