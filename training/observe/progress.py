"""Progress of a long step on stderr: one line that is rewritten on a terminal, a line every few seconds elsewhere."""

import sys
import time

SECONDS_BETWEEN_LINES = 5.0


class ProgressLine:
    """The progress of `what`, counted in `unit`."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._began = self._shown = time.monotonic()

    def update(self, done: int) -> None:
        """Shows that `done` of the total are done, unless that was shown a moment ago."""
        now = time.monotonic()
        on_terminal = sys.stderr.isatty()
        if now - self._shown < (0.1 if on_terminal else SECONDS_BETWEEN_LINES):
            return
        self._shown = now
        line = f"{self._what}: {100 * done / max(self._total, 1):3.0f} % of {self._total:,} {self._unit}"
        print(line, end="\r" if on_terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Blanks the line on a terminal, so that another can be printed there."""
        if sys.stderr.isatty():
            print(" " * 79, end="\r", file=sys.stderr, flush=True)

    def finish(self, result: str) -> None:
        """Says what came out of it, and how long it took."""
        seconds = time.monotonic() - self._began
        # Blanks, because on a terminal a longer line may still stand here.
        padding = " " * 20 if sys.stderr.isatty() else ""
        print(f"{self._what}: {result} in {seconds:.1f} s{padding}", file=sys.stderr, flush=True)
