"""The pages of docs/reference are up to date with the code, and leave nothing out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from docs.generators.reference.orchestrators import orchestrators_of
from docs.generators.reference.pages import FOLDER, PAGES
from trainway.commands.examples import EXAMPLES
from trainway.explain.rules import Level, load_rules
from trainway.launch.job_file.programs import job_schema
from trainway.spec.platform import Platform


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "rewrite it with `python -m docs.generators.reference.pages`"


def test_there_is_no_other_page() -> None:
    assert {page.name for page in FOLDER.iterdir()} == set(PAGES)


def keys(schema: Any) -> Iterator[str]:
    """Yield the names of all keys of a JSON Schema, at every level."""
    for name, value in schema.items() if isinstance(schema, dict) else ():
        if name == "properties":
            yield from value
        yield from keys(value)
    for each in schema if isinstance(schema, list) else ():
        yield from keys(each)


@pytest.mark.parametrize(
    ("name", "schema"), [("platform-file.md", Platform.model_json_schema), ("job-file.md", job_schema)]
)
def test_every_key_of_a_file_is_on_its_page(name: str, schema: Callable[[], dict[str, Any]]) -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", (FOLDER / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) >= set(keys(schema())) and len(set(rows)) > 50


def test_every_command_and_every_failure_is_on_its_page() -> None:
    commands = re.findall(r"^## `trainway (.+)`$", (FOLDER / "commands.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(commands) == set(EXAMPLES)
    failures = re.findall(r"^\| `([a-z0-9-]+)` \|", (FOLDER / "failures.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(failures) == {rule.name for rule in load_rules() if rule.level is not Level.CONSEQUENCE}


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("region", ""),
        ("node_groups[].capacity", ""),
        ("slurm.users[].name", "hyperpod-slurm"),
        ("storage.home", "hyperpod-slurm"),
        ("kubernetes.autoscaling", "eks"),
        ("kubernetes.queues", "eks, hyperpod-eks"),
        ("hyperpod.autoscaling", "hyperpod-eks"),
    ],
)
def test_a_key_has_the_orchestrators_whose_rules_accept_it(key: str, names: str) -> None:
    assert orchestrators_of(key) == names
