"""Every line of the threat model names the test that tries it, or says that it is open."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import yaml

from tests.manifests.platforms import CATALOGUE, objects, platform_of
from tests.seams.kubernetes.reader import read
from tests.security.network_policy import End, connects
from tests.synthesis import ROOT
from trainway.spec.rules import RULES
from trainway.spec.teams.team_data import team_prefixes

PAGE = ROOT / "docs" / "security.md"
HEAD = ["Who", "Could", "Door", "Wall", "Test"]
DOORS = {
    "S3",
    "SageMaker",
    "Secrets Manager",
    "a laptop",
    "a port of a node or a pod",
    "a record in the bucket",
    "a registry",
    "a session of Systems Manager",
    "a shell on a node",
    "the Kubernetes API",
    "the command line",
    "the file system",
    "the image",
    "the kernel of a node",
    "the metadata service",
    "the roles of IAM",
}


def threats(page: str) -> list[list[str]]:
    """Return the rows of the tables with a wall and a test: who, what, the door, the wall, and the test."""
    tables = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    split = [[[cell.strip() for cell in line[1:-2].split("|")] for line in each.splitlines(True)] for each in tables]
    return [row for head, _, *rows in split if head == HEAD for row in rows]


def wrong(page: str) -> list[str]:
    """Return the rows that have no known door, and those that have neither a wall with a test nor a reason to be open.

    The attempts are beside this file. Those on policies of IAM are with the other readers of the seams.
    """
    found = []
    for who, what, door, wall, test in threats(page):
        is_open = wall.startswith("**open**")
        says_why = re.fullmatch(r"\*\*open\*\*: .+\. Closed by: .+", wall)
        named = re.fullmatch(r"`(tests/(?:security|seams)/\w+\.py)::(test_\w+)`", test)
        is_tried = says_why and not test if is_open else wall and named and _exists(*named.groups())
        if door not in DOORS or not is_tried:
            found.append(f"{who}: {what}")
    return found


def blocks() -> list[dict[str, Any]]:
    """Return the examples of the page: the policy of an administrator, and keys of a platform file."""
    return [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]


def _exists(file: str, name: str) -> bool:
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return any(isinstance(each, ast.FunctionDef) and each.name == name for each in tree.body)


def test_every_threat_is_open_or_has_a_wall_and_a_test() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(threats(page)) > 20
    assert wrong(page) == []


def test_a_threat_without_a_test_and_a_test_that_does_not_exist_are_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    wall = "a hop limit of 1 on the metadata service"
    assert len(wrong(page.replace(wall, f"**open**: {wall}"))) == 1
    assert len(wrong(page.replace("::test_viewer_changes_nothing`", "::test_viewer_changes_everything`"))) == 1
    assert len(wrong(page.replace("**open**: the laptop's", "the laptop's"))) == 1
    assert len(wrong(page.replace("Closed by: short-lived", "Short-lived"))) == 1
    assert len(wrong(page.replace("`tests/security/test_endpoint.py", "`tests/stacks/test_endpoint.py"))) == 1


def test_a_door_that_is_not_in_the_list_and_one_that_no_threat_uses_are_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {door for _, _, door, _, _ in threats(page)} == DOORS
    assert len(wrong(page.replace("| a laptop |", "| a window |"))) == 1


def test_every_file_of_attempts_is_in_the_table() -> None:
    named = {file for *_, test in threats(PAGE.read_text(encoding="utf-8")) for file in re.findall(r"\w+\.py", test)}
    assert {each.name for each in PAGE.parents[1].glob("tests/security/test_*.py")} - named == {Path(__file__).name}


def test_the_policy_of_the_page_lets_in_what_it_names_and_nothing_else() -> None:
    written, *_ = blocks()
    platform = platform_of(teams=[{"name": "research"}, {"name": "guests"}])
    assert read(written, platform.kubernetes_or_default.version) == []
    policies, mine = [*objects(platform, "NetworkPolicy"), written], End("research")
    assert connects(policies, End("monitoring"), mine, 9090)
    assert not connects(policies, End("monitoring"), mine, 29500)
    assert not connects(policies, End("guests"), mine, 9090)


def test_the_prefixes_of_the_page_are_those_that_the_teams_get() -> None:
    _, keys, _ = blocks()
    platform = platform_of(**keys)
    assert [breach for each in RULES for breach in each(platform, CATALOGUE) if breach[0][0] in keys] == []
    research = team_prefixes(platform)["research"]
    assert research.own == (
        "corpus/research",
        "checkpoints/research",
        "runs/research",
        "checkpoints/llama",
        "runs/llama-1101-101500",
    )
    assert research.shared == ("corpus/web",)


def test_the_directories_of_the_page_are_allowed() -> None:
    *_, keys = blocks()
    platform = platform_of(**keys)
    assert not platform.storage.team_directories
    assert platform_of(teams=keys["teams"]).storage.team_directories
    assert [breach for each in RULES for breach in each(platform, CATALOGUE) if breach[0][0] in keys] == []
