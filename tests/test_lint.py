"""The static checks, as a test, so that one command says whether the project is sound."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


# `make lint` runs the same checks.
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_static_checks_find_nothing() -> None:
    checked = subprocess.run([ROOT / "scripts" / "lint"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
