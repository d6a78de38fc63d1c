"""The static checks, as a test, so that one command says whether the project is sound."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


# `make lint` runs the same checks.
@pytest.mark.exhaustive
def test_static_checks_find_nothing() -> None:
    checked = subprocess.run([ROOT / "scripts" / "lint"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_mypy_reads_the_types_of_every_cdk_module_that_is_imported() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"]
    read = {
        name for override in configured if override.get("follow_imports") == "normal" for name in override["module"]
    }
    imported = {
        name for folder in ("stacks", "tests") for file in (ROOT / folder).rglob("*.py") for name in _of_cdk(file)
    }
    assert imported > {"aws_cdk"}
    assert imported <= read, "add the module to the overrides of [tool.mypy] in pyproject.toml"


def _of_cdk(file: Path) -> Iterator[str]:
    """Yield the modules of the CDK that a file imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.partition(".")[0] == "aws_cdk")
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "aws_cdk":
            submodules = [each.name for each in node.names if each.name.startswith(("aws_", "cx_api"))]
            yield from (f"{node.module}.{name}" for name in submodules)
            yield str(node.module)
