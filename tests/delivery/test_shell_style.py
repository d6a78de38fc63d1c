"""Every shell file of the project is clean for shellcheck and laid out by shfmt."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELL_FILES = sorted(path for folder in ("delivery", "lifecycle_scripts") for path in (ROOT / folder).rglob("*.sh"))
TOOLS = Path(sys.executable).parent


def test_there_are_shell_files():
    assert {path.name for path in SHELL_FILES} >= {"stage.sh", "on_create.sh", "20-lustre.sh"}


CHECKS = [["shellcheck", "--external-sources"], ["shfmt", "-i", "2", "-ci", "-d"]]


@pytest.mark.parametrize("tool", CHECKS, ids=lambda tool: tool[0])
def test_shell_files_are_clean(tool: list[str]):
    done = subprocess.run([TOOLS / tool[0], *tool[1:], *SHELL_FILES], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SHELL_FILES, ids=lambda path: path.name)
def test_shell_files_stop_at_the_first_error(path: Path):
    text = path.read_text()
    sourced_or_entry = "Sourced" in text or "exec bash" in text
    assert sourced_or_entry or "set -euo pipefail" in text
