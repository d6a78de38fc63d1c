"""What a user can put right: what is wrong, why, and the remedy, without a traceback."""

from __future__ import annotations


class UsageError(Exception):
    """Something the user can put right. The command line prints it and exits with status 2."""


def usage_error(what: str, *, why: str, fix: str) -> UsageError:
    """Return the error for one problem that is not in a platform or job file."""
    return UsageError(f"{what}\n    why: {why}\n    fix: {fix}")
