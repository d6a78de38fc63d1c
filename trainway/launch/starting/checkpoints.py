"""Find the complete checkpoints of a run that this machine can list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainway.launch.platform.locations import located_at, mirrored_at, run_path, scheme_of
from trainway.launch.program.locations import local_roots
from trainway.launch.program.on_checkpoint import STEP
from trainway.launch.program.program import Program
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff


@dataclass(frozen=True)
class CompleteCheckpoint:
    """A complete checkpoint: its step, its location for a job, and its completion time in seconds since the epoch."""

    step: int
    location: str
    completed: float


def marker_location(program: Program, run: Path, hand_off: HandOff | None, *, is_here: bool, has_nodes: bool) -> str:
    """Return the location of the files that complete the checkpoints of a run, with STEP in it.

    `run` is the directory of the run's record, which has the name of the run, and of a run `is_here` also its outputs.
    `has_nodes` says that the run is on nodes of the platform, which have the file system.
    """
    assert program.on_checkpoint is not None
    marker = program.on_checkpoint.marker
    if scheme_of(marker) or marker.startswith(("/", "s3://")):
        return marker
    if program.started_by is None:
        return str(Path(marker).absolute())
    if is_here:
        return str(run.absolute() / "outputs" / marker)
    if program.outputs is not None:
        return f"{program.outputs.rstrip('/')}/{run.name}/{marker}"
    assert hand_off is not None
    is_mounted = has_nodes and hand_off.file_system is not None
    return f"{'fsx' if is_mounted else 's3'}:/{run_path(hand_off, program.team, run.name)}/outputs/{marker}"


def find_checkpoints(
    marker: str, hand_off: HandOff | None, program: Program, *, is_here: bool
) -> list[CompleteCheckpoint]:
    """Return the complete checkpoints, by step. `marker` is from `marker_location`.

    Raises UsageError for a location that cannot be read from this machine.
    """
    seen = _seen_from_here(marker, hand_off, program, is_here=is_here)
    before, _, after = seen.partition(STEP)
    pattern = re.compile(f"{re.escape(before)}([0-9]+){re.escape(after)}")
    files = _in_s3(before, hand_off) if seen.startswith("s3://") else _in_files(before, after)
    found = {}
    for file, completed in files:
        if match := pattern.fullmatch(file):
            location = marker.rpartition("/")[0].replace(STEP, match[1])
            found[int(match[1])] = CompleteCheckpoint(int(match[1]), location, completed)
    return [found[step] for step in sorted(found)]


def _seen_from_here(marker: str, hand_off: HandOff | None, program: Program, *, is_here: bool) -> str:
    """Return the path or the URI by which this machine reads a location."""
    if hand_off is None or marker.startswith("s3://"):
        return marker
    if is_here:
        return located_at(marker, local_roots(program, hand_off))
    mount, path = hand_off.mount_path, marker.partition(":")[2]
    if scheme_of(marker) == "s3":
        return f"s3://{hand_off.bucket}{path}"
    if scheme_of(marker) is None:
        path = marker.removeprefix(mount)
    if Path(mount).is_dir():
        return f"{mount}{path}" if scheme_of(marker) else marker
    is_on_file_system = scheme_of(marker) is not None or marker.startswith(f"{mount}/")
    if is_on_file_system and (mirrored := mirrored_at(hand_off, path)) is not None:
        return mirrored
    raise usage_error(
        f"the checkpoints in {marker.rpartition('/')[0]} cannot be seen from this machine",
        why=f"there is no {mount} here, and that directory of it does not mirror the data bucket",
        fix="follow the run on a node with the file system, or save its checkpoints to s3:/checkpoints",
    )


def _in_files(before: str, after: str) -> Iterator[tuple[str, float]]:
    directory, name = Path(before).parent if not before.endswith("/") else Path(before), Path(before).name
    beginning = "" if before.endswith("/") else name
    for file in directory.glob(f"{beginning}*{after}"):
        try:
            yield str(file), file.stat().st_mtime
        except OSError:
            continue  # the file was deleted after it was listed


def _in_s3(before: str, hand_off: HandOff | None) -> Iterator[tuple[str, float]]:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, prefix = before.removeprefix("s3://").partition("/")
    s3 = boto3.client("s3", region_name=None if hand_off is None else hand_off.region)
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for each in page.get("Contents", ()):
                yield f"s3://{bucket}/{each['Key']}", each["LastModified"].timestamp()
    except (BotoCoreError, ClientError) as error:
        fix = "you need s3:ListBucket on it, and credentials of the platform"
        raise usage_error(f"the checkpoints below {before} cannot be listed", why=str(error), fix=fix) from None
