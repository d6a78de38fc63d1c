"""A run that may not write to its directory or its checkpoints ends before the first step, with one sentence.

A read-only mount stands for missing permissions, because the superuser has them all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Launch
from training.errors import StorageDenied, StorageFailed, StorageFull
from training.hosts.lease import Lease, this_process


@pytest.fixture
def mounted() -> Iterator[Callable[..., Path]]:
    """Mount something on a path, with the words of `mount`. It is unmounted at the end."""
    if os.geteuid() != 0:
        if "CI" in os.environ:
            pytest.fail("mounting a file system needs root")
        pytest.skip("mounting a file system needs root")
    done: list[Path] = []

    def mount(path: Path, *words: str) -> Path:
        subprocess.run(["mount", *words, path], check=True)
        done.append(path)
        return path

    yield mount
    for path in reversed(done):
        subprocess.run(["umount", "--lazy", path], check=True)


def read_only(mounted: Callable[..., Path], path: Path) -> Path:
    """Mount a file or a directory read-only where it is."""
    mounted(path, "--bind", str(path))
    subprocess.run(["mount", "-o", "remount,ro,bind", path], check=True)
    return path


def test_a_read_only_directory_is_named_with_the_user(tmp_path: Path, mounted: Callable[..., Path]) -> None:
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    read_only(mounted, directory)
    message = (
        rf"{directory}: the lease of the run cannot be written: Read-only file system\. .*\(ID {os.geteuid()}\) write"
    )
    with pytest.raises(StorageDenied, match=message):
        Lease(str(directory), this_process("runs/this"), lambda: None)


def test_a_directory_that_cannot_be_made_in_a_read_only_one_is_named(
    tmp_path: Path, mounted: Callable[..., Path]
) -> None:
    read_only(mounted, tmp_path)
    with pytest.raises(StorageDenied, match=rf"{tmp_path}/a/b: the lease of the run cannot be written: Read-only"):
        Lease(f"{tmp_path}/a/b", this_process("runs/this"), lambda: None)


def test_a_full_file_system_is_named(tmp_path: Path, mounted: Callable[..., Path]) -> None:
    directory = tmp_path / "full"
    directory.mkdir()
    mounted(directory, "-t", "tmpfs", "-o", "size=4k", "full")
    (directory / "other").write_bytes(bytes(4096))
    with pytest.raises(
        StorageFull, match=rf"{directory}: the lease of the run cannot be written: No space left.*Delete"
    ):
        Lease(str(directory), this_process("runs/this"), lambda: None)


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match=rf"{tmp_path}/file: the lease of the run cannot be .*Repair the directory"):
        Lease(str(tmp_path / "file"), this_process("runs/this"), lambda: None)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("run/metrics.jsonl", "the record of the run cannot be written. Let the user of this job"),
        pytest.param("checkpoints", "the lease of the run cannot be written: Read", marks=pytest.mark.exhaustive),
        pytest.param("run", "the lease of the run cannot be written: Read", marks=pytest.mark.exhaustive),
    ],
)
def test_all_ranks_end_with_one_sentence_and_a_status(
    launch: Launch, job: dict[str, Any], tmp_path: Path, mounted: Callable[..., Path], name: str, problem: str
) -> None:
    for directory in ("run", "checkpoints"):
        (tmp_path / directory).mkdir()
    (tmp_path / "run/metrics.jsonl").touch()
    read_only(mounted, tmp_path / name)
    # torchrun ends all other ranks soon after one has ended. A long interval lets each end with its own status.
    run = launch(job, 2, PET_MONITOR_INTERVAL="5", PET_MAX_RESTARTS="1")
    output, _ = run.process.communicate(timeout=1800)
    assert output.count(f"exitcode  : {StorageDenied.status}") == 2, output
    # Once for each of the two starts.
    assert output.count(f"{tmp_path / name}: {problem}") == 2, output
    assert "[rank0]: Traceback" not in output
    assert not run.events("start")
    # The run gives back the leases that it had.
    assert not list(tmp_path.glob("*/.lease"))
