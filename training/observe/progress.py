"""Progress of a long step on stderr.

On a terminal it is one line that is rewritten, elsewhere a line every few seconds.
"""

import sys
import time

SECONDS_BETWEEN_LINES = 5.0


class ProgressLine:
    """The progress of `what`, counted in `unit`."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._began = self._shown = time.monotonic()

    def update(self, done: int) -> None:
        """Show that `done` of the total are done, unless a line was shown a moment ago."""
        now = time.monotonic()
        on_terminal = sys.stderr.isatty()
        if now - self._shown < (0.1 if on_terminal else SECONDS_BETWEEN_LINES):
            return
        self._shown = now
        line = f"{self._what}: {100 * done / max(self._total, 1):3.0f} % of {self._total:,} {self._unit}"
        print(line, end="\r" if on_terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the line on a terminal, so that other text can be printed there."""
        if sys.stderr.isatty():
            print(" " * 79, end="\r", file=sys.stderr, flush=True)

    def finish(self, result: str) -> None:
        """Print the result, and the seconds that it took."""
        seconds = time.monotonic() - self._began
        # Blanks overwrite the rest of a longer line on a terminal.
        padding = " " * 20 if sys.stderr.isatty() else ""
        print(f"{self._what}: {result} in {seconds:.1f} s{padding}", file=sys.stderr, flush=True)
