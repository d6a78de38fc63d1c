"""Threat: a user of a node plants the directory from which another user's job resumes, with weights or with a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ME = f"trainway-{os.getuid()}"


@pytest.mark.parametrize("planted", ["mode", "owner", "link", "file"])
def test_a_directory_that_another_user_can_have_planted_is_refused(planted: str, tmp_path: Path) -> None:
    from training.checkpoint.node_directory import create, is_own

    root = tmp_path / ME
    if planted == "file":
        root.touch(mode=0o600)
    elif planted == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        root.symlink_to(tmp_path / "elsewhere")
    else:
        root.mkdir(mode=0o700)
        if planted == "mode":
            root.chmod(0o770)
        elif os.getuid() == 0:
            os.chown(root, 1234, 1234)
        else:
            pytest.skip("only root can give a directory away")
    assert not is_own(root)
    problem = create(root, on_disk=True)
    assert problem and problem.startswith(f"{root}: ") and "Remove it" in problem
