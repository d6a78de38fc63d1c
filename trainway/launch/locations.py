"""What the locations of a job file mean on the machine that the job is launched on."""

from __future__ import annotations

from training.config import Job
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff

SCHEMES = ("fsx", "s3")


def needs_hand_off(job: Job) -> bool:
    """True if a location of the job is relative to a platform's file system or bucket."""
    return any(_scheme(location) for location in _locations(job))


def local_roots(job: Job, hand_off: HandOff) -> dict[str, str]:
    """The root of each scheme for a job on this machine, which reaches the bucket and not the file system.

    A directory of the file system that mirrors a prefix of the bucket is read and written there. Raises UsageError
    for one that does not.
    """
    root = f"s3://{hand_off.bucket}"
    mirrored = [each.path for each in hand_off.file_system.associations if each.s3 == f"{root}{each.path}"]
    for location in _locations(job):
        path = location.removeprefix("fsx:")
        if _scheme(location) == "fsx" and not any(path == m or path.startswith(f"{m}/") for m in mirrored):
            raise usage_error(
                f"{location} cannot be reached from this machine",
                why="there is no Lustre file system here, and that directory of it does not mirror the data bucket",
                fix=f"use a directory below {', '.join(f'fsx:{path}' for path in mirrored)}, or an s3:// location",
            )
    return dict.fromkeys(SCHEMES, root)


def _locations(job: Job) -> tuple[str, ...]:
    return (*job.data.shares, job.checkpoint_location)


def _scheme(location: str) -> str | None:
    scheme, colon, path = location.partition(":")
    return scheme if colon and scheme in SCHEMES and not path.startswith("//") else None
