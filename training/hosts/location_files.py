"""Files below a resolved location: a directory, or a prefix of an S3 bucket.

In both, a file appears completely or not at all. boto3 is imported on first use, because most jobs read a file system.
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
from typing import TYPE_CHECKING, Any

from training.errors import StorageDenied, StorageFailed, UserError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client

# Twice the upper end of what S3 recommends for one ranged request (8-16 MB), because whole files are read:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-guidelines.html (read 2026-11-21)
RANGE_BYTES = 32 * 2**20
ATTEMPTS = int(os.environ.get("AWS_MAX_ATTEMPTS", "10"))
"""Number of times that a request to S3 is sent before it fails. The default is that of the S3 connector."""
CONNECT_SECONDS = 10


def join(location: str, *names: str) -> str:
    """Return the location of a file or directory below `location`."""
    return "/".join((location.rstrip("/"), *names))


def is_s3(location: str) -> bool:
    """Return whether a resolved location is in S3 and not on a file system."""
    return location.startswith("s3://")


def read(location: str) -> bytes | None:
    """Return the content of a file, or None if the file does not exist."""
    if not is_s3(location):
        path = Path(location)
        return path.read_bytes() if path.is_file() else None
    bucket, key = _bucket_and_key(location)
    with _explained(location):
        try:
            return s3_client().get_object(Bucket=bucket, Key=key)["Body"].read()
        except s3_client().exceptions.ClientError as error:
            if _is_absent(error, bucket, key):
                return None
            raise


def write(location: str, content: bytes) -> None:
    """Write a file of up to 5 GB (the limit of one S3 PUT), and replace an existing file."""
    if not is_s3(location):
        path = Path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        unfinished.replace(path)
        return
    bucket, key = _bucket_and_key(location)
    # S3 verifies the digest on arrival, and keeps it for `holds` below.
    checksum = b64encode(hashlib.sha256(content).digest()).decode()
    with _explained(location):
        s3_client().put_object(Bucket=bucket, Key=key, Body=content, ChecksumSHA256=checksum)


def read_with_etag(location: str) -> tuple[bytes, str] | None:
    """Return the content and the ETag of a file in S3, or None if the file does not exist."""
    bucket, key = _bucket_and_key(location)
    with _explained(location):
        try:
            found = s3_client().get_object(Bucket=bucket, Key=key)
            return found["Body"].read(), found["ETag"]
        except s3_client().exceptions.ClientError as error:
            if _is_absent(error, bucket, key):
                return None
            raise


def write_if(location: str, content: bytes, etag: str | None) -> str | None:
    """Write a file in S3 if its ETag is still the given one, or without one if there is no file.

    Returns the new ETag, or None if the file has changed.
    """
    bucket, key = _bucket_and_key(location)
    condition: Any = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
    with _explained(location):
        try:
            return s3_client().put_object(Bucket=bucket, Key=key, Body=content, **condition)["ETag"]
        except s3_client().exceptions.ClientError as error:
            # 409 is a write at the same time, and 404 a file that was deleted since.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 409, 412):
                return None
            raise


def holds(location: str, content_bytes: int, sha256: str) -> bool:
    """Return whether a file of this length and digest exists.

    In S3, the digest is the one taken when it was written.
    """
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
            if _is_absent(error, bucket, key):
                return False
            raise
    checksum = b64encode(bytes.fromhex(sha256)).decode()
    return head["ContentLength"] == content_bytes and head.get("ChecksumSHA256") == checksum


def download(location: str, path: Path) -> None:
    """Copy a file to `path`. A file of S3 is fetched in parallel ranged requests of RANGE_BYTES."""
    if not is_s3(location):
        shutil.copyfile(location, path)
        return
    from boto3.s3.transfer import TransferConfig

    bucket, key = _bucket_and_key(location)
    ranges = TransferConfig(multipart_threshold=RANGE_BYTES, multipart_chunksize=RANGE_BYTES)
    with _explained(location):
        s3_client().download_file(bucket, key, str(path), Config=ranges)


def upload(path: Path, location: str) -> None:
    """Copy a file to S3, in parallel parts of RANGE_BYTES."""
    from boto3.s3.transfer import TransferConfig

    bucket, key = _bucket_and_key(location)
    parts = TransferConfig(multipart_threshold=RANGE_BYTES, multipart_chunksize=RANGE_BYTES)
    with _explained(location):
        s3_client().upload_file(str(path), bucket, key, Config=parts)


def list_files(location: str) -> list[str]:
    """Return the files below `location`, as sorted paths relative to it. Empty if there are none."""
    return sorted(list_sizes(location))


def list_sizes(location: str) -> dict[str, int]:
    """Return the size in bytes of every file below `location`, by its path relative to it."""
    if not is_s3(location):
        root = Path(location)
        return {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    bucket, prefix = _bucket_and_key(join(location, ""))
    with _explained(location):
        pages = s3_client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {item["Key"].removeprefix(prefix): item["Size"] for page in pages for item in page.get("Contents", [])}


def delete(location: str, names: list[str]) -> None:
    """Delete files below `location`, in the given order."""
    if not is_s3(location):
        for name in names:
            (Path(location) / name).unlink(missing_ok=True)
        return
    with _explained(location):
        for name in names:
            bucket, key = _bucket_and_key(join(location, name))
            s3_client().delete_object(Bucket=bucket, Key=key)


def delete_empty(location: str) -> None:
    """Delete a directory that has no files in it. S3 has no empty directories."""
    if not is_s3(location) and not list_files(location):
        shutil.rmtree(location, ignore_errors=True)


@functools.cache
def s3_client() -> S3Client:
    """Return the S3 client of this process. It finds endpoint, region, and credentials in the standard way."""
    import boto3
    from botocore.config import Config

    # Adaptive retries slow down with S3's answers, so that the ranks of a job do not keep it busy with retries:
    # https://docs.aws.amazon.com/boto3/latest/guide/retries.html (read 2026-11-23)
    config = Config(retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS}, connect_timeout=CONNECT_SECONDS)
    # AWS sets AWS_REGION in its containers, and the other SDKs read it. boto3 does not.
    return boto3.client("s3", region_name=os.environ.get("AWS_REGION"), config=config)


def _is_absent(error: ClientError, bucket: str, key: str) -> bool:
    """Return whether the error of a request for an object says that there is no such object.

    S3 answers 404 only to a role that may list the whole bucket, and 403 to one that may list its own prefixes. The
    latter then lists the object. https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html (read 2026-11-24)
    """
    code = error.response["Error"]["Code"]
    if code in ("AccessDenied", "403"):
        try:
            found = s3_client().list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
        except s3_client().exceptions.ClientError:
            return False
        return key not in (each["Key"] for each in found)
    return code in ("NoSuchKey", "404")


def _bucket_and_key(location: str) -> tuple[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return bucket, key


@contextmanager
def _explained(location: str) -> Iterator[None]:
    """Replace errors of S3 requests by messages with a remedy, if one is known."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("NoSuchBucket", "404"):
            problem = "there is no such bucket or file. Check the location and AWS_ENDPOINT_URL"
            raise UserError(f"{location}: {problem}") from error
        if code in ("AccessDenied", "403"):
            problem = "access is denied. The role of this job needs to list, read, write and delete here"
            raise StorageDenied(f"{location}: {problem}") from error
        raise StorageFailed(f"{location}: {error}") from error
    except BotoCoreError as error:
        raise StorageFailed(f"{location}: S3 cannot be used from here: {error}") from error
