"""Files below a resolved location: a directory, or a prefix of an S3 bucket.

A file appears whole or not at all, in both. boto3 is imported on first use, because most jobs read a file system.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from training.errors import UserError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Twice the upper end of what S3 advises to read with one ranged request (8-16 MB), because whole files are read:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-guidelines.html (read 2026-11-21)
RANGE_BYTES = 32 * 2**20


def join(location: str, *names: str) -> str:
    """The location of something below `location`."""
    return "/".join((location.rstrip("/"), *names))


def is_s3(location: str) -> bool:
    """Return whether a resolved location is in S3 and not on a file system."""
    return location.startswith("s3://")


def read(location: str) -> bytes | None:
    """The contents of a file, or None where there is none."""
    if not is_s3(location):
        path = Path(location)
        return path.read_bytes() if path.is_file() else None
    bucket, key = _bucket_and_key(location)
    with _explained(location):
        try:
            return s3_client().get_object(Bucket=bucket, Key=key)["Body"].read()
        except s3_client().exceptions.NoSuchKey:
            return None


def write(location: str, content: bytes) -> None:
    """Writes a file of up to 5 GB (the limit of one S3 PUT), replacing what is there."""
    if not is_s3(location):
        path = Path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        unfinished.replace(path)
        return
    bucket, key = _bucket_and_key(location)
    # S3 compares the digest with what arrived, and keeps it for `digest` below.
    checksum = b64encode(hashlib.sha256(content).digest()).decode()
    with _explained(location):
        s3_client().put_object(Bucket=bucket, Key=key, Body=content, ChecksumSHA256=checksum)


def holds(location: str, content_bytes: int, sha256: str) -> bool:
    """Whether there is a file of this length and digest. In S3 the digest is the one taken when it was written."""
    if not is_s3(location):
        path = Path(location)
        if not path.is_file() or path.stat().st_size != content_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    bucket, key = _bucket_and_key(location)
    with _explained(location):
        try:
            head = s3_client().head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        except s3_client().exceptions.ClientError as error:
            if error.response["Error"]["Code"] == "404":
                return False
            raise
    checksum = b64encode(bytes.fromhex(sha256)).decode()
    return head["ContentLength"] == content_bytes and head.get("ChecksumSHA256") == checksum


def download(location: str, path: Path) -> None:
    """Copies a file of S3 to `path`, in parallel ranged requests of RANGE_BYTES."""
    from boto3.s3.transfer import TransferConfig

    bucket, key = _bucket_and_key(location)
    ranges = TransferConfig(multipart_threshold=RANGE_BYTES, multipart_chunksize=RANGE_BYTES)
    with _explained(location):
        s3_client().download_file(bucket, key, str(path), Config=ranges)


def list_files(location: str) -> list[str]:
    """The files below `location`, as paths relative to it, in order. Empty where there is nothing."""
    return sorted(list_sizes(location))


def list_sizes(location: str) -> dict[str, int]:
    """The bytes of every file below `location`, by its path relative to it."""
    if not is_s3(location):
        root = Path(location)
        return {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    bucket, prefix = _bucket_and_key(join(location, ""))
    with _explained(location):
        pages = s3_client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {item["Key"].removeprefix(prefix): item["Size"] for page in pages for item in page.get("Contents", [])}


def delete(location: str, names: list[str]) -> None:
    """Deletes files below `location`, in the order given."""
    if not is_s3(location):
        for name in names:
            (Path(location) / name).unlink(missing_ok=True)
        return
    with _explained(location):
        for name in names:
            bucket, key = _bucket_and_key(join(location, name))
            s3_client().delete_object(Bucket=bucket, Key=key)


def delete_empty(location: str) -> None:
    """Deletes a directory in which there are no files. S3 has none without."""
    if not is_s3(location) and not list_files(location):
        shutil.rmtree(location, ignore_errors=True)


@functools.cache
def s3_client() -> S3Client:
    """The S3 client of this process; endpoint, region and credentials are found the standard way."""
    import boto3

    # AWS_REGION is what AWS sets in its containers and what the other SDKs read; boto3 alone does not.
    return boto3.client("s3", region_name=os.environ.get("AWS_REGION"))


def _bucket_and_key(location: str) -> tuple[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return bucket, key


@contextmanager
def _explained(location: str) -> Iterator[None]:
    """Makes of a failed request what a user can do about it, where that is known."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("NoSuchBucket", "404"):
            problem = "there is no such bucket or file. Check the location and AWS_ENDPOINT_URL"
        elif code in ("AccessDenied", "403"):
            problem = "access is denied. The role of this job needs to list, read, write and delete here"
        else:
            raise
        raise UserError(f"{location}: {problem}") from error
    except BotoCoreError as error:
        raise UserError(f"{location}: S3 cannot be used from here: {error}") from error
