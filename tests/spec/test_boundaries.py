"""What the command line must not import, so that it stays quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group

from tests.known_day import ON_KNOWN_DAY
from trainway.cli import app, narrowed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["check", "platform.yaml", *ON_KNOWN_DAY],
        ["check", "examples/jobs/llama-8b.yaml", "--platform", "examples/eks-p5.yaml", *ON_KNOWN_DAY],
        ["plan", "platform.yaml"],
        ["schema"],
    ],
)
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


def test_the_help_needs_no_model_of_the_platform_file() -> None:
    program = (
        "import sys\nsys.argv = ['trainway', '--help']\nfrom trainway.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'trainway.spec.platform', 'trainway.spec.rules'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_a_command_is_built_alone_and_a_word_that_names_none_shows_all() -> None:
    names = [command.name for command in get_group(narrowed(["check", "platform.yaml"])).commands.values()]
    assert names == ["check"]
    assert set(get_group(narrowed(["image", "list"])).commands) == {"image"}
    everything = get_group(app).commands.keys()
    assert {"check", "image", "runs", "init"} < everything
    assert get_group(narrowed(["chek"])).commands.keys() == get_group(narrowed([])).commands.keys() == everything
