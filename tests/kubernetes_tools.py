"""The real helm and kubectl, which `scripts/install_kubernetes_tools` downloads."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[1] / "scripts" / "install_kubernetes_tools"


@cache
def tool(name: str) -> Path:
    """Return the path of `helm` or `kubectl`.

    Where the program is not installed, skip the test, or raise FileNotFoundError in continuous integration.
    """
    directory = subprocess.run([INSTALL, "--where"], check=True, capture_output=True, text=True).stdout.strip()
    path = Path(directory) / name
    if not path.exists():
        reason = f"{path} is absent; scripts/install_kubernetes_tools downloads it"
        if "CI" in os.environ:
            raise FileNotFoundError(reason)
        pytest.skip(reason, allow_module_level=True)
    return path
