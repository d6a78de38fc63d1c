"""The entry point of the `trainway` command: Ctrl-C ends it without a traceback, even while it imports its modules."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line. Until its modules are imported, Ctrl-C ends the process as it ends other programs."""
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from trainway.cli import main as run

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
