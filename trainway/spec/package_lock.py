"""The Python packages that a platform adds to its image, by version and checksum.

The file `platform.packages.lock` stands beside `platform.yaml`, and both are committed to Git. `trainway image lock`
writes it. pip reads it as a list of requirements, and the comments at its beginning say what it was made for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainway.spec.handoff_names import DEFAULT_IMAGE

_FACT: Final = re.compile(r"^# (for|beside|lists): (.*)$", re.MULTILINE)
_PACKAGE: Final = re.compile(r"[A-Za-z0-9._-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+")


@dataclass(frozen=True)
class PackageLock:
    """What a lock was made for, and its text.

    `requested` has the items of `image.packages.pip`. `beside` names the combination and the add-ons of the image, and
    `lists` is the hash of the image's own list of packages.
    """

    requested: tuple[str, ...]
    beside: str
    lists: str
    text: str


class PackageLockError(Exception):
    """A lock that cannot be used: the `reason` of the problem."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def package_lock_file(platform_file: Path, image: str = DEFAULT_IMAGE) -> Path:
    """Return where the lock of an image of a platform file is.

    Beside `platform.yaml` it is `platform.packages.lock`, and `platform.NAME.packages.lock` for the image NAME.
    """
    name = "" if image == DEFAULT_IMAGE else f".{image}"
    return platform_file.with_name(f"{platform_file.stem}{name}.packages.lock")


def header(platform_file: Path, requested: Sequence[str], beside: str, lists: str, image: str = DEFAULT_IMAGE) -> str:
    """Return the comments that the lock of an image begins with."""
    key, named = (image, "") if image == DEFAULT_IMAGE else (f"images.{image}", f" --image {image}")
    command = f"trainway image lock {platform_file.name}{named}"
    return (
        f"# The Python packages that {key}.packages.pip adds to the image, by version and checksum.\n"
        f"# `{command}` writes this file. Commit it together with the platform file.\n"
        f"# for: {'; '.join(requested)}\n# beside: {beside}\n# lists: {lists}\n"
    )


def read_package_lock(file: Path, requested: Sequence[str], beside: str) -> PackageLock:
    """Return the lock of a file. Raises PackageLockError if it is missing, damaged, or was made for something else."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PackageLockError(f"there is no file {file}, which has their versions and checksums") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PackageLockError(f"{file} cannot be read: {error}") from None
    facts = dict(_FACT.findall(text))
    if missing := {"for", "beside", "lists"} - facts.keys():
        raise PackageLockError(f"{file} does not say what it was made for: it lacks `# {min(missing)}:`")
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    if rest := _PACKAGE.sub("", body).strip():
        raise PackageLockError(f"{file} has a line that is no package with its checksums: {rest.splitlines()[0]}")
    made_for = tuple(filter(None, facts["for"].split("; ")))
    if made_for != tuple(requested):
        raise PackageLockError(f"{file} was made for {', '.join(made_for) or 'no packages'}")
    if facts["beside"] != beside:
        raise PackageLockError(f"{file} was made for an image of {facts['beside']}, and this one is of {beside}")
    return PackageLock(made_for, beside, facts["lists"], text)
