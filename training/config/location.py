"""Locations of data and checkpoints in a job file."""

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

LOCATION_FORMS = "fsx:/path, s3:/path, s3://bucket/key or a plain path"


def _known_location(location: str) -> str:
    scheme, colon, rest = location.partition(":")
    plain = not colon or "/" in scheme
    in_a_bucket = scheme == "s3" and rest.startswith("//") and rest.count("/") >= 3 and rest[2] != "/"
    below_a_root = scheme in ("fsx", "s3") and rest.startswith("/") and not rest.startswith("//")
    if not location.isprintable() or (below_a_root and ".." in rest.split("/")):
        raise PydanticCustomError(
            "location",
            "'{location}' leads out of the place that it begins in",
            {"location": location, "remedy": "write the path without `..` and in one line"},
        )
    if location.strip() and (plain or in_a_bucket or below_a_root):
        return location
    raise PydanticCustomError(
        "location", "'{location}' is not a location", {"location": location, "remedy": f"write {LOCATION_FORMS}"}
    )


Location = Annotated[str, AfterValidator(_known_location)]
