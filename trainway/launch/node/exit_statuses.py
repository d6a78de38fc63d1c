"""Exit statuses of the starter, and the reasons for which a program does not begin."""

import os

FAILED, STOPPED, HUNG, NOT_EXECUTABLE, NOT_FOUND = 1, 75, 76, 126, 127


class CannotStart(Exception):
    """The program cannot start. Trying again cannot help."""

    def __init__(self, reason: str, status: int = NOT_FOUND) -> None:
        super().__init__(reason)
        self.status = status


class StoppedBefore(Exception):
    """The run was asked to stop before the program began."""


def stopped_status() -> int:
    """Return the exit status of a node whose program was asked to stop."""
    return int(os.environ.get("TRAINWAY_STOPPED_STATUS", "0"))
