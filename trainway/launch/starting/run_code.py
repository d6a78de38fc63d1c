"""The code of a run that is resumed: the archive of its launch, or a directory that a person names.

A record names no directory whose files are uploaded. Its writer may be a job, or a member who is not the reader.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from trainway.launch.platform.locations import code_prefix
from trainway.launch.runs.run_directory import now
from trainway.launch.starting.code import SUFFIX, is_there, pack
from trainway.launch.starting.code_files import code_version
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff
from trainway.spec.shown import shown

MOST_NAMED_FILES = 50
# A larger archive, or one with larger files, is not compared.
_MOST_BYTES = 2**30


@dataclass(frozen=True)
class RecordedCode:
    """What the record of a run says about its code: the SHA-256 of its archive, and `told` beside it.

    A run with the image's own code has no archive. `told` has the entries `code`, `code_version`, and `code_changes`
    of the options in launch.json.
    """

    digest: str | None = None
    told: Mapping[str, Any] = field(default_factory=dict)

    def location(self, hand_off: HandOff, team: str | None) -> str | None:
        """Return the location of the archive in the bucket. Raises UsageError if it is not there."""
        if self.digest is None:
            return None
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        key = f"{code_prefix(hand_off, team)}/{self.digest}{SUFFIX}"
        location = f"s3://{hand_off.bucket}/{key}"
        fix = "`trainway resume RUN --code DIRECTORY` resumes a run with the code of a directory"
        try:
            if is_there(boto3.client("s3", region_name=hand_off.region), hand_off.bucket, key):
                return location
            why = f"{location} is not there"
        except (BotoCoreError, ClientError) as error:
            why, fix = str(error), f"you need s3:ListBucket on s3://{hand_off.bucket}"
        raise usage_error("the code of the run cannot be used again", why=why, fix=fix)


def recorded_code(name: str, options: Mapping[str, Any], *, runs_again: bool) -> RecordedCode:
    """Return the code of a run by the options of its launch.json.

    Raises UsageError if it `runs_again`, and the record is of an earlier version, which names a directory alone.
    """
    told = {key: options[key] for key in ("code", "code_version", "code_changes") if options.get(key) is not None}
    digest = options.get("code_digest")
    if runs_again and digest is None and "code" in told:
        raise usage_error(
            f"{name} cannot be resumed",
            why="its record is of an earlier version, and does not say which code ran",
            fix=f"`trainway resume {name} --code DIRECTORY` resumes it with the code of that directory",
        )
    return RecordedCode(digest, told)


def recorded_evaluation_code(name: str, options: Mapping[str, Any], stated: str | None) -> RecordedCode:
    """Return the code of the evaluations of a run by the options of its launch.json.

    `stated` is the directory that their job file states, which no command reads. Raises UsageError if it states one,
    and the record is of an earlier version, which has no SHA-256 of it.
    """
    digest = options.get("evaluation_code_digest")
    if stated is not None and digest is None:
        raise usage_error(
            f"the checkpoints of {name} cannot be evaluated",
            why="its record is of an earlier version, and does not say which code evaluates them",
            fix="launch the evaluation as a job of its own, with the location of the checkpoint in its job file",
        )
    return RecordedCode(digest)


def digest_of(location: str) -> str:
    """Return the SHA-256 in the name of an archive of code."""
    return PurePosixPath(location).name.removesuffix(SUFFIX)


def code_record(
    directory: str | None, location: str | None, before: RecordedCode | None, hand_off: HandOff | None
) -> dict[str, Any]:
    """Return the entries about the code of a launch for the options in launch.json.

    `directory` is the one that was uploaded to `location`, and None if the archive of `before` runs again. If
    `directory` has other code than `before`, the record gets an entry with the files that differ.
    """
    if directory is None:
        again = {} if before is None else before.told
        return {"code": None, "code_version": None, **again, **_digest_entry(None if before is None else before.digest)}
    known: dict[str, Any] = {"code": directory, "code_version": code_version(Path(directory))}
    if location is None or hand_off is None:
        return known
    known |= _digest_entry(digest := digest_of(location))
    if before is None:
        return known
    changes = list(before.told.get("code_changes", ()))
    if digest != before.digest:
        key = f"{location.removeprefix(f's3://{hand_off.bucket}/').rpartition('/')[0]}/{before.digest}{SUFFIX}"
        change: dict[str, Any] = {"at": now(), "before": before.digest, "after": digest}
        if before.digest and (earlier := _files_in_bucket(hand_off, key, before.digest)) is not None:
            later = _files(pack(Path(directory), _MOST_BYTES)[0])
            names = earlier.keys() | later.keys()
            files = sorted(name for name in names if earlier.get(name) != later.get(name))
            change |= {"files": files[:MOST_NAMED_FILES], "more_files": len(files[MOST_NAMED_FILES:])}
        changes.append(change)
    return known | ({"code_changes": changes} if changes else {})


def _digest_entry(digest: str | None) -> dict[str, str]:
    return {} if digest is None else {"code_digest": digest}


def _files_in_bucket(hand_off: HandOff, key: str, digest: str) -> dict[str, str] | None:
    """Return the files of an archive in the bucket as `_files` does, or None if it cannot be read or is another one."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = boto3.client("s3", region_name=hand_off.region).get_object(Bucket=hand_off.bucket, Key=key)
        archive = found["Body"].read(_MOST_BYTES)
        return _files(archive) if hashlib.sha256(archive).hexdigest() == digest else None
    except (BotoCoreError, ClientError, tarfile.TarError, EOFError, OSError, zlib.error, ValueError):
        return None


def _files(archive: bytes) -> dict[str, str]:
    """Return the SHA-256 of each file in an archive, by its name as a terminal shows it. Nothing is unpacked."""
    found: dict[str, str] = {}
    size = 0
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            size += member.size
            if size > _MOST_BYTES:
                raise ValueError("the archive is too large")
            if (content := tar.extractfile(member)) is not None:
                name = shown(member.name)[:1000]
                found[name] = f"{member.mode:o} {hashlib.sha256(content.read()).hexdigest()}"
    return found
