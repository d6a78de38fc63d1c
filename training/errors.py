"""The exceptions for problems that a user can fix, each with the exit status of the process.

The statuses above 2 are those of sysexits.h: https://man7.org/linux/man-pages/man3/sysexits.h.3head.html (read
2026-11-23).
"""


class UserError(Exception):
    """A problem outside the code. The message says what, where, why, and how to fix it.

    It is printed without a traceback, and the process exits with `status`.
    """

    status = 2


class StorageFailed(UserError):
    """Storage does not answer, or a file cannot be written or read. Status 74 is EX_IOERR."""

    status = 74


class StorageFull(StorageFailed):
    """A checkpoint does not fit into its file system. Status 73 is EX_CANTCREAT."""

    status = 73


class StorageDenied(StorageFailed):
    """The job has no permission to read or write a file. Status 77 is EX_NOPERM."""

    status = 77


class LocationInUse(UserError):
    """Another run writes to the same location. Status 69 is EX_UNAVAILABLE."""

    status = 69


class Diverged(UserError):
    """Too many consecutive steps were skipped, or the weights are not finite. Status 65 is EX_DATAERR."""

    status = 65


class ReplicasDiffer(UserError):
    """The weights of replicas differ, due to a fault of a device. Status 71 is EX_OSERR. A restart can help."""

    status = 71


HUNG_STATUS = 76
"""Exit status of ranks that hang. It is EX_PROTOCOL: the ranks no longer communicate. A restart can help."""

GAVE_UP_STATUS = 70
"""Exit status of a node whose run failed too often without a new checkpoint. It is EX_SOFTWARE."""

STATUSES_FOR_GOOD = frozenset({UserError.status, Diverged.status, StorageDenied.status, GAVE_UP_STATUS})
"""Exit statuses with which a restart ends as well: a mistake, diverged weights, a missing permission, and giving up."""
