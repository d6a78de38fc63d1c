"""Copy this checkout as a clone would, with a `make setup` that does nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.synthesis import ROOT

# Folders that `make setup` installs. The copy links to those of this checkout.
INSTALLED = (".venv", "node_modules")


def fresh_checkout(copy: Path) -> Path:
    """Copy the files of this checkout that Git does not ignore, whether they are committed or not, to a new folder.

    Modules are found in the copy only with the folder on PYTHONPATH.
    """
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    for name in INSTALLED:
        (copy / name).symlink_to((ROOT / name).resolve())
    (copy / "scripts" / "setup").write_text("#!/bin/sh\n")
    return copy
