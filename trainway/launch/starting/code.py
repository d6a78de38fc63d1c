"""Local code for a job that runs elsewhere, so that a change needs no new image.

The code is one archive, named by its content below `runs/code` of the platform's bucket, or below `runs/TEAM/code` if
the team has prefixes of its own. On the nodes trainway/launch/node/synced_code.py puts it before the image's own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Any

from trainway.launch.platform.locations import code_prefix
from trainway.launch.starting.code_files import IGNORE_FILE, CodeFiles, code_files, in_units
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff

# Code, not data: a launch is not kept waiting, and every node fetches all of it.
MOST_BYTES = 200 * 2**20
SUFFIX = ".tar.gz"
"""How the key of an archive ends. Its SHA-256 comes before."""


def pack(directory: Path, most_bytes: int = MOST_BYTES) -> tuple[bytes, str]:
    """Return a tar.gz of the code below a directory, and its SHA-256. Equal contents make equal archives.

    trainway/launch/starting/code_files.py chooses the files. Raises UsageError for a directory without files, and for
    more than `most_bytes`.
    """
    return _packed(_checked(directory, most_bytes))


def _checked(directory: Path, most_bytes: int) -> CodeFiles:
    what = f"the code of {directory} cannot be synced"
    if not directory.is_dir():
        raise usage_error(what, why="there is no such directory", fix="name the directory that holds your code")
    files = code_files(directory)
    if not files.sent:
        raise usage_error(what, why="no file is in it", fix="name the directory that holds your code")
    if files.size > most_bytes:
        raise usage_error(
            what,
            why=f"its files have {in_units(files.size)}, more than {most_bytes // 2**20} MiB; the largest: "
            f"{files.largest()}",
            fix=f"name what is no code in .gitignore or {IGNORE_FILE}, put data into the bucket, or allow more with "
            "`run.code_limit`",
        )
    return files


def _packed(files: CodeFiles) -> tuple[bytes, str]:
    directory = files.directory
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        for path in files.sent:
            tar.addfile(_entry(path, path.relative_to(directory)), io.BytesIO(path.read_bytes()))
    # Without a time of its own, which gzip would write down.
    archive = gzip.compress(tarred.getvalue(), mtime=0)
    return archive, hashlib.sha256(archive).hexdigest()


def sync(
    directory: Path,
    hand_off: HandOff,
    *,
    team: str | None = None,
    upload: bool = True,
    most_bytes: int = MOST_BYTES,
) -> str:
    """Upload the code below a directory unless the bucket has it, and return its location in the bucket.

    Without `upload` it only says where the code would be.

    Raises UsageError where the code cannot be packed or the bucket cannot be written to.
    """
    files = _checked(directory, most_bytes)
    print(files, file=sys.stderr)
    archive, digest = _packed(files)
    prefix = code_prefix(hand_off, team)
    key = f"{prefix}/{digest}{SUFFIX}"
    location = f"s3://{hand_off.bucket}/{key}"
    if not upload:
        return location
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    s3 = boto3.client("s3", region_name=hand_off.region)
    try:
        # Named by its content, so one that is there is this one.
        if not is_there(s3, hand_off.bucket, key):
            s3.put_object(Bucket=hand_off.bucket, Key=key, Body=archive, ChecksumAlgorithm="SHA256")
    except (BotoCoreError, ClientError) as error:
        raise usage_error(
            f"the code of {directory} cannot be uploaded",
            why=str(error),
            fix=f"you need s3:ListBucket and s3:PutObject on s3://{hand_off.bucket}/{prefix}",
        ) from None
    return location


def is_there(s3: Any, bucket: str, key: str) -> bool:
    """Return whether a bucket has an object. S3 forbids a missing object to those who may not list the bucket."""
    return bool(s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)["KeyCount"])


def _entry(path: Path, name: Path) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(name))
    entry.size = path.stat().st_size
    entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    return entry
