"""The page about `trainway diff` describes the command that there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from tests.synthesis import ROOT
from trainway.cli import app
from trainway.commands.changing import REFUSED
from trainway.diff.report import DiffReport

PAGE = (ROOT / "docs" / "diff.md").read_text(encoding="utf-8")
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def options() -> set[str]:
    """Return the options of the command."""
    command = typer.main.get_command(app).commands["diff"]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


def test_it_lists_every_option_and_no_other() -> None:
    table = PAGE.partition("## Options")[2].partition("## ")[0]
    assert set(re.findall(r"^\| `(--[a-z-]+)", table, re.MULTILINE)) == options()
    assert f"| {REFUSED} | Something is refused. |" in table


def test_it_lists_every_key_of_the_document() -> None:
    schema = DiffReport.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        for key in part["properties"]:
            assert f"`{key}" in PAGE, key


def test_the_workflow_is_one_whose_steps_run(tmp_path: Path) -> None:
    """The script of the last step names what the labels of the pull request name, and fails with the diff."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    workflow = yaml.safe_load(text)
    assert set(workflow) == {"name", True, "permissions", "jobs"}, "YAML reads `on` as true"
    assert workflow["permissions"]["id-token"] == "write"
    steps = workflow["jobs"]["diff"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    script = tmp_path / "step"
    script.write_text("#!/bin/bash\n" + steps[-1]["run"], encoding="utf-8")
    subprocess.run([SHELLCHECK, script], check=True)
    assert set(re.findall(r" (--[a-z-]+)", steps[-1]["run"])) <= options()
    if not shutil.which("jq"):
        pytest.skip("jq is not installed; scripts/install_nodes installs it")
    called, stand_in = tmp_path / "called", tmp_path / "trainway"
    stand_in.write_text(f'#!/bin/sh\necho "$@" >{called}\nexit {REFUSED}\n', encoding="utf-8")
    stand_in.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LABELS": '["bug", "allow-replace: storage.lustre", "allow-replace: train"]',
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    ran = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", script], env=environment, check=False)
    assert ran.returncode == REFUSED
    assert called.read_text() == "diff platform.yaml --allow-replace storage.lustre --allow-replace train\n"
