"""Nothing that runs on a node fetches anything from the internet: it is in the image, with the scripts, or in S3."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "lifecycle_scripts"
# The node itself: 50-exporters.sh asks it, and programs ask the credential service of 42-team-roles.sh.
OWN = re.compile(r"http://(\$NODE_ADDRESS|127\.0\.0\.1:491/)")
FETCHES = re.compile(
    r"\b(curl|wget|npm|conda|git\s+(clone|fetch|pull)|pip3?\s+install|go\s+install|add-apt-repository|"
    r"(apt|apt-get|yum|dnf|snap|zypper)\s+(-\S+\s+)*(update|install|add|download)|(docker|nerdctl|ctr|crictl)\s+.*\bpull)\b"
)
MODULES = {"urllib.request", "http.client", "ftplib", "requests", "boto3", "xmlrpc.client"}


def shell(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]


def python(path: Path) -> list[str]:
    """The strings of a program but its docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [str(node.value) for node in constants if id(node) not in docstrings]


FILES = sorted(path for kind in ("*.sh", "*.py") for path in SCRIPTS.rglob(kind))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SCRIPTS)))
def test_no_script_fetches_anything(path: Path) -> None:
    for line in shell(path) if path.suffix == ".sh" else python(path):
        assert not FETCHES.search(line), line
        assert not re.search(r"(https?|ftp)://", OWN.sub("", line)), line


def test_no_program_imports_what_fetches() -> None:
    for path in FILES:
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert MODULES.isdisjoint(names), path


@pytest.mark.parametrize(
    "line",
    [
        "curl -O https://x",
        "apt-get -y install jq",
        "docker pull x",
        "docker --debug pull x",
        "pip install x",
        "git clone x",
    ],
)
def test_what_fetches_is_seen(line: str) -> None:
    assert FETCHES.search(line)
