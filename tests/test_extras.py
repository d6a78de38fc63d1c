"""Each extra has the packages that its folder imports, so that whoever installs the extra lacks nothing."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from packaging.utils import canonicalize_name

from tests.synthesis import ROOT
from tests.wheel_environment import required

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OURS = {"delivery", "emulator", "stacks", "trainway", "training"}
# Imported by a job whose file asks for them, which has an error for each; and types, which only a type checker imports.
OPTIONAL = {"comet_ml", "mlflow", "mypy_boto3_s3", "pyarrow", "torchao", "transformer_engine", "wandb"}


def imported(folder: str) -> dict[str, str]:
    """Return the top-level modules that the folder's files import, each with a file that does."""
    found: dict[str, str] = {}
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            found |= {module.partition(".")[0]: str(file.relative_to(ROOT)) for module in modules}
    return {name: file for name, file in found.items() if name not in sys.stdlib_module_names | OURS | OPTIONAL}


def lacking(folder: str, extra: Iterable[str]) -> dict[str, str]:
    """Return what the folder imports that neither the base nor the extra brings."""
    installed = {canonicalize_name(each.name) for each in required([*PROJECT["dependencies"], *extra])}
    brought_by = _distributions_by_module()
    return {
        module: file
        for module, file in imported(folder).items()
        if installed.isdisjoint(canonicalize_name(each) for each in brought_by.get(module, ()))
    }


@cache
def _distributions_by_module() -> Mapping[str, list[str]]:
    return packages_distributions()


@pytest.mark.parametrize(
    ("folder", "extra"),
    [("emulator", "emulator"), ("stacks", "platform"), ("training", "training"), ("trainway/report", "report")],
)
def test_an_extra_has_what_its_folder_imports(folder: str, extra: str) -> None:
    assert imported(folder)
    assert lacking(folder, EXTRAS[extra]) == {}


def test_a_package_that_an_extra_lacks_is_named() -> None:
    assert set(lacking("emulator", [each for each in EXTRAS["emulator"] if each != "hypothesis"])) == {"hypothesis"}
