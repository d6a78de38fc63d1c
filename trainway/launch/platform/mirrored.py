"""The location in a bucket that has the files of a path of the platform's file system."""

from __future__ import annotations

from trainway.spec.handoff import HandOff

_RUNS = "/runs"
"""The directory of all runs on the file system: `path` of trainway/launch/program/request.py."""


def mirrored_at(hand_off: HandOff, path: str) -> str | None:
    """Return the URI that mirrors a path of the file system, or None if no bucket mirrors it.

    `path` begins with a slash and is relative to the mount, for example `/runs/llama-1123-101500`. Without a file
    system, the nodes of a run upload its directory to the same path of the data bucket.
    """
    if hand_off.file_system is None:
        return f"s3://{hand_off.bucket}{path}"
    for each in hand_off.file_system.associations:
        if f"{path}/".startswith(f"{each.path}/"):
            return each.s3.rstrip("/") + path.removeprefix(each.path)
    return None


def nodes_copy_runs(hand_off: HandOff) -> bool:
    """Return whether the nodes of a run on Kubernetes copy its directory to the bucket, which nothing else does.

    With the directories of teams, for example, the file system has no links to the bucket.
    """
    return hand_off.file_system is None or mirrored_at(hand_off, _RUNS) != f"s3://{hand_off.bucket}{_RUNS}"
