"""What CONTRIBUTING.md says is so: its commands run, and its paths, verbs, and markers exist."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib

import pytest

from tests.recipes.page import commands
from tests.synthesis import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMANDS = list(commands(TEXT))
MAKE = [command for command, _ in COMMANDS if command.startswith("make ")]


# Each takes CPU seconds. `make lint` runs mypy on the whole project, and `make test` is pytest.
EXPENSIVE = ("mypy", "pytest")


@pytest.mark.parametrize(
    ("command", "promised"),
    [
        pytest.param(*each, marks=pytest.mark.exhaustive) if each[0].startswith(EXPENSIVE) else each
        for each in COMMANDS
        if each[0] not in MAKE
    ],
)
def test_a_command_of_the_loop_prints_what_the_page_says(command: str, promised: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PATH"] = f"{ROOT}/.venv/bin:{environment['PATH']}"
    ran = subprocess.run(command.split(), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert all(line in ran.stdout for line in promised), ran.stdout


def test_every_make_verb_exists() -> None:
    verbs = set(re.findall(r"make ([a-z-]+)", TEXT))
    assert verbs >= {"setup-dev", "lint", "test", "test-all", "golden"}
    for verb in verbs:
        subprocess.run(["make", "--dry-run", verb], cwd=ROOT, check=True, capture_output=True)


def test_every_path_exists() -> None:
    names = [name for name in re.findall(r"`([\w./*-]+)`", TEXT) if "/" in name or name.endswith((".md", ".toml"))]
    assert len(names) > 10
    for name in names:
        found = list(ROOT.glob(name))
        assert found or name.startswith((".venv", ".checkov")), name
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (ROOT / target).exists(), target


def test_every_module_that_generates_a_file_exists() -> None:
    modules = re.findall(r"`python -m ([\w.]+)`", TEXT)
    assert modules
    for module in modules:
        path = module.replace(".", "/")
        assert (ROOT / f"{path}.py").exists() or (ROOT / path / "__main__.py").exists(), module


def test_its_marker_is_the_one_that_make_test_leaves_out() -> None:
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    (named,) = re.findall(r"Mark a test `(\w+)`", TEXT)
    assert named in [each.partition(":")[0] for each in markers]
    assert f"-m 'not {named}'" in (ROOT / "Makefile").read_text()
