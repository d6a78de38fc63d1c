"""Find the key of the platform file or its lock that causes a replacement or a deletion.

Every edit since the last deploy is put back alone. The edit without which nothing would be replaced is the cause.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainway.diff.compare import compare
from trainway.diff.costs import is_resized
from trainway.diff.edits import Edit, edits_between
from trainway.diff.tokens import Id, StackTemplate
from trainway.spec import strict_yaml
from trainway.spec.deployed_file import DeployedFile, deployed_file
from trainway.spec.errors import UsageError
from trainway.spec.lock import Lock, lock_file, lock_text
from trainway.spec.package_lock import package_lock_file
from trainway.spec.platform import Platform

# More edits than these are not tried one by one. Each takes a synthesis.
MOST_TRIALS: Final = 16
AT_ONCE: Final = 4
Synthesis = Callable[[Path], Mapping[str, StackTemplate]]


@dataclass(frozen=True)
class LocatedEdit:
    """An edit, and the file that it was made in: the platform file or its lock."""

    file: Path
    edit: Edit


def causes_of(
    lost: Collection[Id],
    recorded: DeployedFile | None,
    lock: Lock | None,
    platform: Platform,
    file: Path,
    deployed: Mapping[str, StackTemplate],
    synthesis: Synthesis,
) -> dict[Id, LocatedEdit]:
    """Return the edit that causes each replacement or deletion, where there is one such edit.

    `recorded` and `lock` are the platform file and the lock of the last deploy, as far as they are known. `synthesis`
    returns the templates of a platform file, and raises UsageError if the file is wrong.
    """
    made = _made(recorded, lock, platform, file)
    if len(made) == 1:
        return dict.fromkeys(lost, made[0])
    with tempfile.TemporaryDirectory(prefix="trainway-diff-") as directory:

        def still_lost(numbered: tuple[int, LocatedEdit]) -> set[Id]:
            number, cause = numbered
            trial = _trial(cause, Path(directory) / str(number), platform, file)
            return _still_lost(trial, deployed, synthesis, lost)

        # A missing lock comes first. If it explains everything, the other edits need no trial.
        missing = [each for each in made[:1] if not each.file.exists()]
        tried: list[tuple[LocatedEdit, set[Id]]] = []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for some in (missing, made[len(missing) : MOST_TRIALS]):
                if not tried or set.intersection(*(still for _, still in tried)) & set(lost):
                    numbered = enumerate(some, len(tried))
                    tried += zip(some, pool.map(still_lost, numbered), strict=True)
    return {id: cause for id in lost if (cause := next((made for made, still in tried if id not in still), None))}


def _made(recorded: DeployedFile | None, lock: Lock | None, platform: Platform, file: Path) -> list[LocatedEdit]:
    """Return the edits of the platform file since the last deploy, and then those of its lock."""
    of_file = edits_between(recorded.platform, deployed_file(platform).platform) if recorded else []
    if lock and not lock_file(file).exists():
        # Whatever else was edited is harmless with it.
        return [
            LocatedEdit(lock_file(file), Edit((), "it is missing", _data(lock))),
            *(LocatedEdit(file, each) for each in of_file),
        ]
    # The lock before the deploy still has a removed entry, and has no added one. The tags of a node group leave the
    # lock with the group, so they need no trial of their own.
    of_lock = [
        each
        for each in (edits_between(_data(lock), _data(platform.lock)) if lock else [])
        if each.key not in (("leaving",), ("node_tags",)) and each.what != "it was added"
    ]
    return [*(LocatedEdit(file, each) for each in of_file), *(LocatedEdit(lock_file(file), each) for each in of_lock)]


def _data(lock: Lock) -> dict[str, Any]:
    return lock.model_dump(mode="json", exclude_defaults=True)


def _trial(cause: LocatedEdit, directory: Path, platform: Platform, file: Path) -> Path:
    """Write a platform file and its lock without one edit, and return the file."""
    directory.mkdir()
    trial = directory / file.name
    if cause.file == file:
        data, lock = cause.edit.put_back, lock_text(platform.lock)
    else:
        data = deployed_file(platform).platform
        lock = strict_yaml.dump(dict(cause.edit.put_back))
    extension = {"extend": str((file.parent / data["extend"]).resolve())} if _is_path(data.get("extend")) else {}
    trial.write_text(strict_yaml.dump({**data, **extension, **_images(data, file)}), encoding="utf-8")
    for image in platform.image_names:
        if package_lock_file(file, image).exists():
            shutil.copyfile(package_lock_file(file, image), package_lock_file(trial, image))
    lock_file(trial).write_text(lock, encoding="utf-8")
    return trial


def _still_lost(
    trial: Path, deployed: Mapping[str, StackTemplate], synthesis: Synthesis, lost: Collection[Id]
) -> set[Id]:
    """Return what a deploy of a trial would still lose or resize; all of it for a wrong file."""
    try:
        wanted = synthesis(trial)
    except UsageError:
        return set(lost)
    return {each.id for each in compare(deployed, wanted) if each.is_lost or is_resized(each)}


def _images(data: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return the sections of images of a trial, which finds the Dockerfiles where the platform file does."""

    def found(image: Any) -> Any:
        if not isinstance(image, dict) or image.get("dockerfile") is None:
            return image
        return {**image, "dockerfile": str((file.parent / image["dockerfile"]).resolve())}

    sections = {"image": found(data["image"])} if "image" in data else {}
    if isinstance(data.get("images"), dict):
        sections["images"] = {name: found(image) for name, image in data["images"].items()}
    return sections


def _is_path(extension: Any) -> bool:
    """Return whether a platform file names its extension by a path, which is relative to the file."""
    return isinstance(extension, str) and extension.endswith(".py")
