"""Which key of the platform file a replacement or a deletion follows from.

Every edit since the last deploy is put back alone. The edit without which nothing would be replaced is the cause.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import yaml

from trainway.diff.account import AwsAccount
from trainway.diff.compare import compare
from trainway.diff.costs import is_resized
from trainway.diff.edits import Edit, edits_between
from trainway.diff.tokens import Id, StackTemplate
from trainway.spec.deployed_file import DeployedFile, deployed_file, deployed_file_name, read
from trainway.spec.errors import UsageError
from trainway.spec.lock import lock_file
from trainway.spec.platform import Platform

# More edits than these are not tried one by one. Each takes a synthesis.
MOST_TRIALS: Final = 16
AT_ONCE: Final = 4
Synthesis = Callable[[Path], Mapping[str, StackTemplate]]


def recorded_file(account: AwsAccount, platform: str) -> DeployedFile | None:
    """Return the platform file of the last deploy, or None if there is no record that can be read."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = account.client("ssm").get_parameter(Name=deployed_file_name(platform))
    except (BotoCoreError, ClientError):
        return None
    return read(answer["Parameter"]["Value"])


def causes_of(
    lost: Collection[Id],
    recorded: DeployedFile,
    platform: Platform,
    file: Path,
    deployed: Mapping[str, StackTemplate],
    synthesis: Synthesis,
) -> dict[Id, Edit]:
    """Return the edit that causes each replacement or deletion, where there is one such edit.

    `synthesis` returns the templates of a platform file, and raises UsageError if the file is wrong.
    """
    edits = edits_between(recorded.platform, deployed_file(platform).platform)
    if len(edits) == 1:
        return dict.fromkeys(lost, edits[0])
    with tempfile.TemporaryDirectory(prefix="trainway-diff-") as directory:

        def still_lost(numbered: tuple[int, Edit]) -> set[Id]:
            number, edit = numbered
            return _lost_without(edit.put_back, Path(directory) / str(number), file, deployed, synthesis, lost)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            tried = list(zip(edits, pool.map(still_lost, enumerate(edits[:MOST_TRIALS])), strict=False))
    return {id: next(edit for edit, still in tried if id not in still) for id in lost if _has_cause(id, tried)}


def _has_cause(id: Id, tried: list[tuple[Edit, set[Id]]]) -> bool:
    return any(id not in still for _, still in tried)


def _lost_without(
    data: Mapping[str, Any],
    directory: Path,
    file: Path,
    deployed: Mapping[str, StackTemplate],
    synthesis: Synthesis,
    lost: Collection[Id],
) -> set[Id]:
    """Return what a deploy of a file with other data would still lose or resize; all of it for a wrong file."""
    directory.mkdir()
    trial = directory / file.name
    extension = {"extend": str((file.parent / data["extend"]).resolve())} if _is_path(data.get("extend")) else {}
    trial.write_text(yaml.safe_dump({**data, **extension}, sort_keys=False), encoding="utf-8")
    if lock_file(file).exists():
        shutil.copy(lock_file(file), lock_file(trial))
    try:
        wanted = synthesis(trial)
    except UsageError:
        return set(lost)
    return {each.id for each in compare(deployed, wanted) if each.is_lost or is_resized(each)}


def _is_path(extension: Any) -> bool:
    """Return whether a platform file names its extension by a path, which is relative to the file."""
    return isinstance(extension, str) and extension.endswith(".py")
