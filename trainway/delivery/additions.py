"""What the image pipeline gets of the files beside a platform file: lists of packages, and a build context."""

from __future__ import annotations

import shutil
from pathlib import Path

from trainway.delivery.package_lock import lists_hash
from trainway.spec.docker_context import context_files
from trainway.spec.errors import usage_error
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform


def write_additions(platform: Platform, directory: Path) -> None:
    """Write what the platform adds to the base of its image to a directory, or nothing if it adds nothing.

    The directory gets `apt.txt`, `pip.txt`, and the folder `dockerfile`, as far as the platform has them. Raises
    UsageError if the lock of the Python packages was made for other packages of the image.
    """
    added, apt = platform.additions, platform.image.packages.apt
    if added.packages and added.packages.lists != lists_hash(platform, load_versions()):
        raise usage_error(
            "the lock of image.packages.pip is older than the packages of the image",
            why="this version of Trainway has other versions of them",
            fix="run `trainway image lock FILE`, and commit what it writes",
        )
    lists = {"apt.txt": "".join(f"{name}\n" for name in apt), "pip.txt": added.packages.text if added.packages else ""}
    for name, text in lists.items():
        if text:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text, encoding="utf-8")
    if added.dockerfile is None:
        return
    for file in context_files(added.dockerfile):
        target = directory / "dockerfile" / file.relative_to(added.dockerfile)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
