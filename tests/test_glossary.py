"""One word has one meaning: docs/glossary.md and the names in the code agree."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.synthesis import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| ([^|]+) \| [^|]+\. \| `([\w.]+)` \|$", GLOSSARY, re.MULTILINE)
AVOIDED = re.findall(r"^\| ([a-z]+) \| ", GLOSSARY.partition("## Words to avoid")[2], re.MULTILINE)
PACKAGES = ("delivery", "emulator", "lifecycle_scripts", "stacks", "training", "trainway")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
# Names of public classes and type aliases that several modules define differently, and why that is one meaning.
SHARED = {
    "Family": "a family of metrics, in exporters that are programs of their own on a node",
    "Launch": "what was launched: the launcher's own value, and the same as its run's directory records it",
    "RotaryScaling": "a section of the job file, and the same as the model has it",
    "Samples": "samples of a metric in the exporters of a node, and of training data in the image",
    "Section": "a section of a file; the training job cannot import the platform's",
    "Told": "a signal that ends a program; the runner and the limiter are programs of their own",
}
# Folders with a file `storage.py`: the section `storage` of a platform file, the rules on it, and the stack of that
# name.
STORAGE = {"stacks/foundation", "trainway/spec/sections"}


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def types_of(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the public classes and type aliases of a module with their definition; an alias's is its value."""
    for node in tree(file).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, f"{file}:{node.lineno}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, ast.unparse(node.value)
            if re.fullmatch(r"[A-Z][a-z]\w*", name) and not value.startswith("TypeVar("):
                yield name, value


def names_in(file: Path) -> Iterator[tuple[str, int]]:
    """Yield every name that a module gives to something, with its line."""
    for node in ast.walk(tree(file)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno


def words(name: str) -> set[str]:
    """Return the words of a name, in lower case and without a plural's s."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return {part.lower().removesuffix("s") for part in parts}


@pytest.mark.parametrize(("term", "name"), TERMS)
def test_a_term_is_the_name_of_what_it_names(term: str, name: str) -> None:
    module, _, own = name.rpartition(".")
    path = ROOT / module.replace(".", "/")
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    assert re.search(rf"^(class {own}\b|def {own}\b|{own}\b.* = |    \"{own}\",)", file.read_text(), re.MULTILINE), term


def test_the_terms_are_in_order_and_each_is_there_once() -> None:
    terms = [term.lower() for term, _ in TERMS]
    assert len(terms) > 20
    assert terms == sorted(set(terms))


def test_a_public_class_or_type_alias_means_one_thing() -> None:
    defined: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for name, definition in types_of(file):
            defined[name].add(definition)
    several = {name: found for name, found in defined.items() if len(found) > 1 and not name.startswith("_")}
    assert {name: found for name, found in several.items() if name not in SHARED} == {}, "rename all but one"
    assert set(SHARED) <= set(several), "it has one definition now: take it out of SHARED"


@pytest.mark.parametrize("word", AVOIDED)
def test_no_name_has_a_word_of_several_meanings(word: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in FILES
        for name, line in names_in(file)
        if word in words(name)
    ]
    found += [str(file.relative_to(ROOT)) for file in FILES if word in words(file.stem)]
    assert found == []


def test_a_word_to_avoid_is_found() -> None:
    assert words("_node_places") == {"node", "place"}
    assert "place" in words("WorkPlace") and "place" not in words("placement") | words("replaced")


def test_a_file_called_storage_is_about_the_section_of_that_name() -> None:
    assert {str(file.parent.relative_to(ROOT)) for file in FILES if file.name == "storage.py"} == STORAGE
