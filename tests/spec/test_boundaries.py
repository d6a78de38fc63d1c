"""What the command line must not import, so that it stays quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("arguments", [["--help"], ["check", "platform.yaml"], ["plan", "platform.yaml"], ["schema"]])
def test_quick_commands_import_no_heavy_library(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['trainway', *{arguments!r}]\n"
        "from trainway.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "heavy = {'aws_cdk', 'torch', 'boto3', 'botocore', 'moto', 'matplotlib', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stderr
