"""Local code for a job that runs elsewhere, so that a change needs no new image.

The code is one archive, named by its content below `runs/code` of the platform's bucket. On the nodes
training/synced_code.py puts it before the image's own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff

PREFIX = "runs/code"
# Code, not data: a launch is not kept waiting, and every node fetches all of it.
MOST_BYTES = 64 * 2**20


def pack(directory: Path) -> tuple[bytes, str]:
    """A tar.gz of the code below a directory, and its SHA-256: equal contents make equal archives.

    In a Git repository that is what Git does not ignore, whether it was committed or not; elsewhere everything that is
    not hidden. Raises UsageError for a directory without code, and for more than MOST_BYTES.
    """
    what = f"the code of {directory} cannot be synced"
    if not directory.is_dir():
        raise usage_error(what, why="there is no such directory", fix="name the directory that holds your packages")
    files = sorted(path for path in _listed(directory) if path.is_file() and "__pycache__" not in path.parts)
    if not any(path.suffix == ".py" for path in files):
        raise usage_error(what, why="no Python file is in it", fix="name the directory that holds your packages")
    total = sum(path.stat().st_size for path in files)
    if total > MOST_BYTES:
        largest = max(files, key=lambda path: path.stat().st_size)
        raise usage_error(
            what,
            why=f"its files are {total / 2**20:.0f} MiB, more than {MOST_BYTES // 2**20}; the largest is {largest}",
            fix="let .gitignore leave out what is no code, or put data into the bucket",
        )
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        for path in files:
            tar.addfile(_entry(path, path.relative_to(directory)), io.BytesIO(path.read_bytes()))
    # Without a time of its own, which gzip would write down.
    archive = gzip.compress(tarred.getvalue(), mtime=0)
    return archive, hashlib.sha256(archive).hexdigest()


def sync(directory: Path, hand_off: HandOff, *, upload: bool = True) -> str:
    """Uploads the code below a directory, unless it is there, and returns its location in the bucket.

    Without `upload` it only says where the code would be.

    Raises UsageError where the code cannot be packed or the bucket cannot be written to.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    archive, digest = pack(directory)
    key = f"{PREFIX}/{digest}.tar.gz"
    location = f"s3://{hand_off.bucket}/{key}"
    if not upload:
        return location
    s3 = boto3.client("s3", region_name=hand_off.region)
    try:
        # Named by its content, so one that is there is this one. A list, because a missing object is a forbidden one
        # to those who may not list.
        if s3.list_objects_v2(Bucket=hand_off.bucket, Prefix=key, MaxKeys=1)["KeyCount"] == 0:
            s3.put_object(Bucket=hand_off.bucket, Key=key, Body=archive, ChecksumAlgorithm="SHA256")
    except (BotoCoreError, ClientError) as error:
        raise usage_error(
            f"the code of {directory} cannot be uploaded",
            why=str(error),
            fix=f"you need s3:ListBucket and s3:PutObject on s3://{hand_off.bucket}/{PREFIX}",
        ) from None
    return location


def _listed(directory: Path) -> list[Path]:
    git = ["git", "-C", str(directory), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        found = directory.rglob("*")
        return [path for path in found if not any(part[0] == "." for part in path.relative_to(directory).parts)]
    return [directory / name for name in listed.split("\0") if name]


def _entry(path: Path, name: Path) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(name))
    entry.size = path.stat().st_size
    entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    return entry
