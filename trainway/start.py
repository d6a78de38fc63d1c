"""The entry point of the `trainway` command: Ctrl-C ends it without a traceback, even while it imports its modules."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130
"""Exit status after Ctrl-C, which shells use for the signal too."""


def main() -> None:
    """Run the command line. Before and after the command itself, Ctrl-C ends the process as it ends other programs."""
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from trainway.cli import main as run

    try:
        if is_heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        # Typer lets it through while it builds the commands.
        sys.exit(INTERRUPTED)
    finally:
        if is_heard:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
