"""The schemes of locations in a job file, such as `fsx:/corpus`."""

from __future__ import annotations

from collections.abc import Mapping

SCHEMES = ("fsx", "s3")


def scheme_of(location: str) -> str | None:
    """Return `fsx` or `s3` for a location that is relative to the platform, and None for any other."""
    scheme, colon, path = location.partition(":")
    return scheme if colon and scheme in SCHEMES and path.startswith("/") and not path.startswith("//") else None


def located_at(location: str, roots: Mapping[str, str]) -> str:
    """Return the path or URI of a location. `roots` maps the schemes to what they are there."""
    scheme = scheme_of(location)
    return location if scheme is None else f"{roots[scheme].rstrip('/')}{location.removeprefix(f'{scheme}:')}"
