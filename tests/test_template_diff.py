"""`python -m tests.template_diff` shows what an edit of the stacks changes in an example without golden templates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fresh_checkout import fresh_checkout

EDITED = "stacks/constructs/storage/data_bucket.py"
OLD, NEW = "versioned=True,", "versioned=False,"


@pytest.mark.exhaustive
def test_an_edit_of_the_stacks_is_shown_as_changed_lines(tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Before"]):
        subprocess.run([*git, *arguments], cwd=checkout, check=True)
    environment = {**os.environ, "PYTHONPATH": str(checkout)}

    def shown() -> list[str]:
        command = [sys.executable, "-m", "tests.template_diff", "eks-s3"]
        ran = subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True, text=True)
        return [line for line in ran.stdout.splitlines() if line[0] in "+-"]

    assert shown() == []
    file = checkout / EDITED
    text = file.read_text(encoding="utf-8")
    assert text.count(OLD) == 1
    file.write_text(text.replace(OLD, NEW), encoding="utf-8")
    changed = [line[0] for line in shown() if "VersioningConfiguration" in line]
    assert changed == ["-", "-"], "the data bucket and the bucket of its logs"
