"""The location in a bucket that mirrors a path of the platform's file system."""

from __future__ import annotations

from trainway.spec.handoff import HandOff


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
