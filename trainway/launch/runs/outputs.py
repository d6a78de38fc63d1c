"""Copying what a run wrote to this machine. The bucket has the files of the run's directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from trainway.launch.platform.hand_off import CREDENTIALS
from trainway.launch.platform.locations import mirrored_at, nodes_copy_runs, run_path, scheme_of
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff

_MAKE_ROOM = "make room, or name another directory with --to; the command continues where it ended"


@dataclass(frozen=True)
class Copied:
    """The number of files that were copied, with their bytes, and of files that were here already."""

    copied: int
    kept: int
    size: int


@dataclass(frozen=True)
class _Source:
    """Objects of a bucket below a prefix, and the folder of the destination that gets them."""

    bucket: str
    prefix: str
    folder: str = ""


def copy_outputs(
    hand_off: HandOff,
    run: str,
    destination: Path,
    only: Sequence[str] = (),
    *,
    team: str | None = None,
    outputs: str | None = None,
) -> Copied:
    """Copy the files of a run from the platform's bucket to a directory, and return how many.

    `team` is the team of the run. `outputs` is the location of outputs that the job file names. The run's own are
    copied to the folder `outputs`. `only` has patterns of paths below the run's directory, such as `logs/*`, in which
    `*` also matches a slash. Without patterns, all files are copied. A file that is here with the same size and time is
    kept.

    Raises UsageError if the bucket does not have the run's directory, or cannot be read.
    """
    import boto3
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    what = f"the outputs of {run} cannot be copied"
    own = _Source(hand_off.bucket, f"{run_path(hand_off, team, run)}/")
    elsewhere = None if outputs is None else _source_of_outputs(hand_off, outputs, run, what)
    s3 = boto3.client("s3", region_name=hand_off.region)
    done, source = Copied(0, 0, 0), own
    try:
        for source in (own, *([elsewhere] if elsewhere else [])):
            found = list(_objects(s3, source))
            if not found and source is own:
                why = f"there is nothing below s3://{own.bucket}/{own.prefix}"
                raise usage_error(what, why=why, fix=_wait_or_copy_from_node(hand_off, run_path(hand_off, team, run)))
            for entry in found:
                name = f"{source.folder}{entry['Key'].removeprefix(source.prefix)}"
                if not _is_wanted(name, only):
                    continue
                file = _path_below(destination, name, what)
                if _is_here(file, entry["Size"], entry["LastModified"].timestamp()):
                    done = Copied(done.copied, done.kept + 1, done.size)
                    continue
                file.parent.mkdir(parents=True, exist_ok=True)
                s3.download_file(source.bucket, entry["Key"], str(file))
                os.utime(file, (entry["LastModified"].timestamp(),) * 2)
                done = Copied(done.copied + 1, done.kept, done.size + entry["Size"])
    except (BotoCoreError, ClientError, Boto3Error) as error:
        fix = f"you need s3:ListBucket and s3:GetObject on s3://{source.bucket}/{source.prefix}; {CREDENTIALS}"
        raise usage_error(what, why=str(error), fix=fix) from None
    except OSError as error:
        raise usage_error(what, why=str(error), fix=_MAKE_ROOM) from None
    return done


def _wait_or_copy_from_node(hand_off: HandOff, path: str) -> str:
    """Return the remedy for a bucket without the files of a run."""
    copying = "its nodes have copied" if nodes_copy_runs(hand_off) else "FSx has exported"
    started = f"wait until the run has started, and {copying} its files; `trainway status` shows the state"
    if hand_off.file_system is None or not nodes_copy_runs(hand_off):
        return started
    directory = f"{hand_off.mount_path}/{path}"
    elsewhere = f"of a run under Slurm, or with `--data fsx` on SageMaker, the files are only in {directory}"
    return f"{started}; {elsewhere}, and `trainway shell` opens a node"


def copy_local(run: Path, destination: Path, only: Sequence[str] = ()) -> Copied:
    """Copy the files of a run on this machine to a directory, and return how many. `only` is as in `copy_outputs`.

    Raises UsageError if a file cannot be written.
    """
    done = Copied(0, 0, 0)
    try:
        for found in sorted(path for path in run.rglob("*") if path.is_file()):
            name, known = str(found.relative_to(run)), found.stat()
            if not _is_wanted(name, only):
                continue
            file = destination / name
            if _is_here(file, known.st_size, known.st_mtime):
                done = Copied(done.copied, done.kept + 1, done.size)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, file)
            done = Copied(done.copied + 1, done.kept, done.size + known.st_size)
    except OSError as error:
        raise usage_error(f"the outputs of {run} cannot be copied", why=str(error), fix=_MAKE_ROOM) from None
    return done


def _source_of_outputs(hand_off: HandOff, outputs: str, run: str, what: str) -> _Source:
    """Return where the bucket has the outputs of a run whose job file names their location."""
    path, uri = outputs.partition(":")[2].rstrip("/"), outputs.rstrip("/")
    match scheme_of(outputs):
        case "s3":
            uri = f"s3://{hand_off.bucket}{path}"
        case "fsx":
            uri = mirrored_at(hand_off, path) or uri
    if not uri.startswith("s3://"):
        why = f"`run.outputs` is {outputs}, which no bucket mirrors"
        raise usage_error(
            what, why=why, fix="copy them from a node: `trainway shell` opens one, or leave `outputs` out"
        )
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return _Source(bucket, f"{prefix}/{run}/".lstrip("/"), "outputs/")


def _is_wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatch(name, pattern) for pattern in only)


def _objects(s3: Any, source: _Source) -> Iterator[dict[str, Any]]:
    """Return the files below a prefix. FSx has an object for each directory, too, whose name ends in a slash."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=source.bucket, Prefix=source.prefix):
        yield from (each for each in page.get("Contents", ()) if not each["Key"].endswith("/"))


def _path_below(destination: Path, name: str, what: str) -> Path:
    """Return the path of a file below the directory. Raise UsageError for a name that leads out of it."""
    parts = PurePosixPath(name).parts
    if ".." in parts or PurePosixPath(name).is_absolute():
        raise usage_error(
            what, why=f"the file {name!r} would be outside of {destination}", fix="copy it with another tool"
        )
    return destination.joinpath(*parts)


def _is_here(file: Path, size: int, modified: float) -> bool:
    try:
        found = file.stat()
    except OSError:
        return False
    return found.st_size == size and int(found.st_mtime) == int(modified)


def not_on_a_platform(run: Path) -> UsageError:
    """Return the error for a run on this machine, whose files are here."""
    why, fix = "it runs on this machine", f"its files are in {run}; name another directory with --to"
    return usage_error(f"{run} has nothing to copy", why=why, fix=fix)
