"""Check that a Dockerfile of a user builds on the base of the image.

https://docs.docker.com/reference/dockerfile/ (read 2026-11-23)
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainway.spec.docker_context import context_files
from trainway.spec.dockerfile import stages_of

BASE: Final = "TRAINWAY_BASE"
BEGIN: Final = "begin it with `ARG TRAINWAY_BASE` and `FROM ${TRAINWAY_BASE}`"
# Each deploy that changes a file uploads all of them.
MOST_BYTES: Final = 256 * 2**20
_FROM_BASE: Final = (f"${BASE}", f"${{{BASE}}}")


class UserDockerfileError(Exception):
    """A directory that the image cannot be built with: `reason` and `remedy` of the problem."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


def require_dockerfile(directory: Path) -> None:
    """Raise UserDockerfileError unless the directory has a Dockerfile whose last stage is built on TRAINWAY_BASE.

    The deploy uploads the build context, so that has no links and at most MOST_BYTES.
    """
    file = directory / "Dockerfile"
    if not directory.is_dir():
        raise UserDockerfileError(
            f"there is no directory {directory}", "correct the path, which is relative to the platform file"
        )
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserDockerfileError(f"{directory} has no Dockerfile", f"write {file}, and {BEGIN}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserDockerfileError(f"{file} cannot be read: {error}", "it must be a readable UTF-8 text file") from None
    _require_base(file, text)
    _require_context(directory)


def _require_context(directory: Path) -> None:
    try:
        files = list(context_files(directory))
    except (OSError, UnicodeDecodeError) as error:
        raise UserDockerfileError(f"{directory} cannot be read: {error}", "make its files readable") from None
    ignored = directory / ".dockerignore"
    if links := [file for file in files if file.is_symlink()]:
        reason = f"{links[0]} is a symbolic link, which the deploy cannot upload"
        raise UserDockerfileError(reason, f"copy the file that it leads to, or name it in {ignored}")
    sizes = {file: file.stat().st_size for file in files}
    if (total := sum(sizes.values())) > MOST_BYTES:
        largest = max(files, key=lambda file: sizes[file])
        reason = f"its files have {total / 2**20:.0f} MiB, more than {MOST_BYTES // 2**20}; the largest is {largest}"
        raise UserDockerfileError(reason, f"name in {ignored} what the Dockerfile does not use")


def _require_base(file: Path, text: str) -> None:
    before, stages = stages_of(text)
    declared = any(
        name.partition("=")[0] == BASE for each in before if each.word == "ARG" for name in each.text.split()
    )
    if not stages:
        raise UserDockerfileError(f"{file} has no FROM", BEGIN)
    last = stages[-1]
    image, names = last.image, {each.name: each.image for each in stages[:-1] if each.name}
    while image.lower() in names:
        image = names.pop(image.lower())
    if image not in _FROM_BASE:
        reason = f"{file}:{last.line}: its last stage is built on {image}, and not on the base of the image"
        raise UserDockerfileError(reason, "write `FROM ${TRAINWAY_BASE}` there")
    if not declared:
        reason = (
            f"{file}:{last.line}: TRAINWAY_BASE has no value here, because no ARG declares it before the first FROM"
        )
        raise UserDockerfileError(reason, "write `ARG TRAINWAY_BASE` as the first instruction")
