"""Resolve the locations of a job file on this machine.

`fsx:/path` and `s3:/path` are below roots that only the launcher knows. The launcher puts them in the environment
variable TRAINWAY_LOCATIONS, as JSON: {"fsx": "/fsx", "s3": "s3://bucket"}. A directory can have an entry of its own,
which takes precedence over that of its scheme: {"s3": "s3://bucket", "s3:/corpus/web": "/mnt/web"}.
"""

import json
import os
from collections.abc import Iterator

from training.errors import UserError


def resolve(location: str) -> str:
    """Return a location as a directory or an `s3://bucket/key`, without a trailing slash.

    Raises:
        UserError: the location needs a root that TRAINWAY_LOCATIONS does not give.
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme or location.startswith("s3://"):
        return location.rstrip("/") or "/"
    roots = _roots()
    directory = next((each for each in (location, *_above(location)) if each in roots), None)
    if directory is not None:
        return f"{roots[directory].rstrip('/')}/{location.removeprefix(directory).strip('/')}".rstrip("/")
    if scheme not in roots:
        known = ", ".join(sorted(roots)) or "none"
        raise UserError(
            f"{location}: TRAINWAY_LOCATIONS in the environment does not say where {scheme}: is (it knows: {known}). "
            "Start the job with `trainway launch`, which sets it, or name a directory or an s3://bucket/key"
        )
    return f"{roots[scheme].rstrip('/')}/{path.strip('/')}"


def _above(location: str) -> Iterator[str]:
    """Yield the directories above `location`, nearest first."""
    while "/" in location:
        location = location.rpartition("/")[0]
        yield location


def _roots() -> dict[str, str]:
    text = os.environ.get("TRAINWAY_LOCATIONS", "{}")
    try:
        roots = json.loads(text)
    except json.JSONDecodeError:
        roots = None
    if not isinstance(roots, dict) or not all(isinstance(root, str) for root in roots.values()):
        raise UserError(
            f"TRAINWAY_LOCATIONS is not a JSON object of strings: {text!r}. "
            'An example: {"fsx": "/fsx", "s3": "s3://bucket"}'
        )
    return roots
