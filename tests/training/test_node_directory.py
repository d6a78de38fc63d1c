"""The directory of a user's checkpoints on a node, and how forgotten files in it go away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ME = f"trainway-{os.getuid()}"


def test_a_local_disk_is_used_only_where_the_launcher_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from training.checkpoint.node_directory import create, node_directory

    monkeypatch.delenv("TRAINWAY_MEMORY", raising=False)
    monkeypatch.delenv("TRAINWAY_LOCAL_DISK", raising=False)
    assert node_directory(on_disk=False) == Path("/dev/shm") / ME
    assert node_directory(on_disk=True) is None
    assert "no local disk" in str(create(None, on_disk=True))
    monkeypatch.setenv("TRAINWAY_LOCAL_DISK", "/opt/dlami/nvme/jobs")
    assert node_directory(on_disk=True) == Path("/opt/dlami/nvme/jobs") / ME


def test_a_directory_is_created_for_this_user_alone_and_used_again(tmp_path: Path) -> None:
    from training.checkpoint.node_directory import create, is_own

    for _ in range(2):
        assert create(tmp_path / ME, on_disk=True) is None
        assert is_own(tmp_path / ME) and (tmp_path / ME).stat().st_mode & 0o777 == 0o700


def test_a_disk_that_is_not_mounted_leaves_nothing_on_the_disk_of_the_system(tmp_path: Path) -> None:
    from training.checkpoint.node_directory import create

    problem = create(tmp_path / "not-mounted" / ME, on_disk=True)
    assert problem and "No such file or directory" in problem and f"Look at {tmp_path}/not-mounted" in problem
    assert not list(tmp_path.iterdir())
    assert create(tmp_path / "memory" / ME, on_disk=False) is None


def test_files_of_jobs_that_never_came_back_go_away_after_a_week(tmp_path: Path) -> None:
    from training.checkpoint.node_directory import SECONDS_UNTIL_FORGOTTEN, remove_forgotten

    for job in ("mine", "recent", "forgotten", "running"):
        (tmp_path / job / "layout" / "step-00000002").mkdir(parents=True)
    old = tmp_path.stat().st_mtime - SECONDS_UNTIL_FORGOTTEN - 60
    for job in ("mine", "forgotten"):
        for directory in (tmp_path / job / "layout", tmp_path / job):
            os.utime(directory, (old, old))
    # A job that runs creates and deletes directories of steps, which changes only the directory above them.
    os.utime(tmp_path / "running", (old, old))
    remove_forgotten(tmp_path, tmp_path / "mine")
    assert {each.name for each in tmp_path.iterdir()} == {"mine", "recent", "running"}
