"""The static checks, as a test, so that one command says whether the project is sound."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("container", "emulator", "lifecycle_scripts", "stacks", "training", "trainway")
MOST_LINES, MOST_PARAMETERS = 60, 7
CONSTRUCT = "the CDK dictates the scope and the id of a construct, and each of its settings is a keyword"
# Functions that may have more parameters, with the reason. None may have more lines.
MANY_PARAMETERS = {
    "stacks/constructs/delivery/build_stage.py: BuildStage.__init__": CONSTRUCT,
    "stacks/constructs/delivery/pipeline.py: Delivery.__init__": CONSTRUCT,
    "stacks/constructs/eks/capacity_schedules.py: _schedule": CONSTRUCT,
    "stacks/constructs/eks/launch_template.py: training_launch_template": CONSTRUCT,
    "stacks/constructs/monitoring/scan_alarm.py: ScanAlarm.__init__": CONSTRUCT,
    "stacks/constructs/storage/lustre.py: LustreFileSystem.__init__": CONSTRUCT,
    "stacks/observability.py: ObservabilityStack.__init__": CONSTRUCT,
    "training/model/blockwise_attention.py: _attention_backward": "torch derives the schema of a custom operator from "
    "the parameters, which can be tensors and numbers but no dataclass",
}


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


# Rules of ruff cannot hold this: PLR0915 counts statements, and PLR0913 ignores parameters that begin with `_`.
def test_functions_are_short_and_have_few_parameters() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    read = {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}
    found = [(f"{file}: {name}", lines, count) for file, module in read.items() for name, lines, count in sizes(module)]
    assert {name for name, lines, _ in found if lines > MOST_LINES} == set()
    # An exception that no function needs any more leaves the list.
    assert {name for name, _, count in found if count > MOST_PARAMETERS} == set(MANY_PARAMETERS)


def sizes(node: ast.AST, above: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield each function below a node: its name after those around it, its number of lines, and of parameters."""
    for child in ast.iter_child_nodes(node):
        name = above
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = f"{above}.{child.name}".lstrip(".")
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = [*child.args.posonlyargs, *child.args.args]
            is_bound = bool(own) and own[0].arg in ("self", "cls")
            lines = (child.end_lineno or child.lineno) - child.lineno + 1
            yield name, lines, len(own) - is_bound + len(child.args.kwonlyargs)
        yield from sizes(child, name)


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("def f():\n" + "    pass\n" * 59, ("f", 60, 0)),
        ("def f():\n    return [\n" + "        1,\n" * 60 + "    ]\n", ("f", 63, 0)),
        ("if True:\n    async def f(a, /, b, *c, d, _e=1, **g): ...", ("f", 1, 4)),
        ("class A:\n    def f(self, a):\n        pass", ("A.f", 2, 1)),
        ("class A:\n    @classmethod\n    def f(cls, *, a, b): ...", ("A.f", 1, 2)),
    ],
)
def test_the_size_of_a_function_is_found(planted: str, expected: tuple[str, int, int]) -> None:
    assert list(sizes(ast.parse(planted))) == [expected]
