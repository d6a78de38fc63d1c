"""Whether the inputs of a job that are in S3 exist, as far as that is known before a launch.

The nodes look for inputs on the file system when a run starts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from trainway.launch.platform.locations import located_at, scheme_of
from trainway.launch.program.program import Program
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff


def check_inputs(program: Program, hand_off: HandOff) -> None:
    """Raise UsageError for an input that names no object, no prefix with objects, or no bucket.

    Prints a warning to standard error about an input that cannot be looked at, for example without the right to list
    the bucket. The run then finds out.
    """
    for location, uri in _in_s3(program, hand_off):
        if (why := _why_absent(uri, hand_off.region)) is not None:
            named = f" ({uri})" if uri != location else ""
            fix = f"copy it there, for example with `aws s3 sync DIRECTORY {uri}`, or name another location"
            raise usage_error(f"{program.name} cannot read its input {location}{named}", why=why, fix=fix)


def _in_s3(program: Program, hand_off: HandOff) -> Iterator[tuple[str, str]]:
    """Yield the inputs in S3 as the job file has them, with their URIs."""
    for location in dict.fromkeys(program.inputs):
        if scheme_of(location) == "s3" or location.startswith("s3://"):
            yield location, located_at(location, {"s3": f"s3://{hand_off.bucket}"})


def _why_absent(uri: str, region: str) -> str | None:
    """Return why nothing can be read there, or None if something can, or if it is unknown."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    key = key.rstrip("/")
    s3 = boto3.client("s3", region_name=region)
    try:
        if s3.list_objects_v2(Bucket=bucket, Prefix=f"{key}/" if key else "", MaxKeys=1)["KeyCount"]:
            return None
        if not key:
            return f"the bucket {bucket} is empty"
        # A list, because a missing object is a forbidden one to those who may list only prefixes of their own.
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
        if key not in (each["Key"] for each in listed):
            return f"the bucket {bucket} has no object {key}, and none below {key}/"
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            return f"there is no bucket {bucket}"
        _warn(uri, error.response["Error"].get("Message", str(error)))
    except BotoCoreError as error:
        _warn(uri, str(error))
    return None


def _warn(uri: str, why: str) -> None:
    what = f"it is unknown whether the input {uri} exists, because it cannot be read: {why}"
    print(f"warning: {what}", file=sys.stderr)
