"""The files that GitHub and git read are valid by their published schemas, and do what the project promises."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for
from packaging.specifiers import SpecifierSet

from tests.synthesis import ROOT
from trainway.spec.sections.orchestrator import Orchestrator

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def oldest_python() -> str:
    """Return the oldest version of Python that the project takes, for example 3.11."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requires: str = project["requires-python"]
    return requires.removeprefix(">=")


def accepted(schema: str, text: str) -> bool:
    """Return whether a published schema, from the collection that `make lint` uses, accepts a YAML text."""
    from check_jsonschema.builtin_schemas import get_builtin_schema

    # PyYAML reads the key `on` of a workflow as true.
    value = {"on" if key is True else key: each for key, each in yaml.safe_load(text).items()}
    document = get_builtin_schema(f"vendor.{schema}")
    return bool(validator_for(document)(document).is_valid(value))


@pytest.mark.parametrize(
    ("schema", "name", "right", "wrong"),
    [
        ("dependabot", "dependabot.yml", "interval: weekly", "interval: often"),
        ("github-issue-forms", "ISSUE_TEMPLATE/bug.yml", "type: textarea", "type: textaria"),
        ("github-issue-forms", "ISSUE_TEMPLATE/feature.yml", "attributes:", "atributes:"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml", "true", "perhaps"),
        ("github-workflows", "workflows/ci.yml", "contents: read", "contents: reed"),
        ("github-workflows", "workflows/release.yml", "runs-on:", "runs_on:"),
    ],
)
def test_the_file_has_the_published_schema(schema: str, name: str, right: str, wrong: str) -> None:
    text = (GITHUB / name).read_text(encoding="utf-8")
    assert right in text and accepted(schema, text)
    assert not accepted(schema, text.replace(right, wrong, 1))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_workflows_may_only_read_and_pin_their_actions_by_commit(file: Path) -> None:
    workflow = read(file)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        if called := job.get("uses"):
            # Another workflow of this repository, whose jobs this test reads too.
            assert ROOT / called in WORKFLOWS and not job.get("permissions")
            continue
        # Only the jobs that publish and that open a change may write. They run nothing of the repository.
        uses = [step["uses"] for step in job["steps"] if "uses" in step]
        may_write = "write" in job.get("permissions", {}).values()
        assert may_write == ((file.stem, name) in (("release", "publish"), ("versions", "propose")))
        assert not may_write or not any("checkout" in each for each in uses)
        assert all(re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", each) for each in uses), uses
        assert job["timeout-minutes"] <= 90


def test_no_script_of_a_workflow_contains_an_expression_of_github() -> None:
    """A shell could run the name of a tag or a branch, so workflows pass such names as environment variables."""
    scripts = [
        step["run"]
        for file in WORKFLOWS
        for job in read(file)["jobs"].values()
        for step in job.get("steps", [])
        if "run" in step
    ]
    assert len(scripts) > 8
    # The tag of the image is a hash that the workflow itself has computed.
    assert not [each for each in scripts if "${{" in each.replace("${{ steps.image.outputs.tag }}", "")]


def test_the_matrix_begins_with_the_oldest_supported_python_and_node() -> None:
    matrix = read(GITHUB / "workflows/nightly.yml")["jobs"]["versions"]["strategy"]["matrix"]
    assert matrix["python"][0] == oldest_python()
    (oldest,) = re.findall(r"-lt (\d+) \]\]", (ROOT / "scripts/setup").read_text(encoding="utf-8"))
    assert matrix["node"][0] == oldest


def test_every_night_and_every_release_run_all_shards() -> None:
    nightly = read(GITHUB / "workflows/nightly.yml")
    shards = nightly["jobs"]["shard"]["strategy"]["matrix"]["shard"]
    assert shards == list(range(1, len(shards) + 1))
    (command,) = [step["run"] for step in nightly["jobs"]["shard"]["steps"] if "test-all" in step.get("run", "")]
    assert command == 'make test-all SHARD="$SHARD"'
    assert nightly["jobs"]["shard"]["env"]["SHARD"] == f"${{{{ matrix.shard }}}}/{len(shards)}"
    jobs = read(GITHUB / "workflows/release.yml")["jobs"]
    assert jobs["build"]["needs"] == "test" and jobs["publish"]["needs"] == "build"


def test_every_week_the_lock_of_the_mirror_is_compared_by_a_command_that_exists() -> None:
    workflow = read(GITHUB / "workflows/mirror-lock.yml")
    assert workflow[True]["schedule"]  # YAML reads `on` as a boolean
    commands = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    assert commands[0].endswith(" PyYAML") and commands[1:] == ["python -m delivery.refresh_lock --check"]
    module = commands[1].split()[2]
    done = subprocess.run([sys.executable, "-m", module, "-h"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--check " in done.stdout


def test_each_change_is_judged_by_the_command_that_a_person_can_run() -> None:
    steps = read(GITHUB / "workflows/ci.yml")["jobs"]["test"]["steps"]
    assert "bash .ci/run" in [step.get("run") for step in steps]


def test_every_pinned_package_supports_the_oldest_python_of_the_project() -> None:
    """With a pinned version that requires a newer Python, pip searches for other versions for many minutes."""
    oldest = f"{oldest_python()}.0"
    metadata = {each.name: each.metadata for each in distributions()}
    needed = {name: each["Requires-Python"] for name, each in metadata.items() if "Requires-Python" in each}
    assert len(needed) > 100
    refused = {name: needs for name, needs in needed.items() if needs and not SpecifierSet(needs).contains(oldest)}
    assert not refused, f"pin versions in constraints.txt that Python {oldest} accepts"


def test_what_the_workflows_run_exists() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in WORKFLOWS)
    for verb in set(re.findall(r"\bmake ([a-z-]+)(?: SHARD=\S+)?$", text, re.MULTILINE)):
        subprocess.run(["make", "--dry-run", verb], cwd=ROOT, check=True, capture_output=True)
    tests = re.findall(r"tests/\w+\.py", text)
    assert "tests/test_wheel.py" in tests and all((ROOT / each).exists() for each in tests)


def test_the_hooks_are_the_programs_of_the_project() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        assert hook["language"] == "system" and "additional_dependencies" not in hook
        assert (ROOT / hook["entry"].split()[0]).exists(), hook["entry"]


def test_the_bug_template_asks_for_diagnoses_and_versions() -> None:
    asked = {field.get("id"): field["attributes"] for field in read(GITHUB / "ISSUE_TEMPLATE/bug.yml")["body"]}
    assert "trainway doctor --json" in asked["doctor"]["label"]
    assert "trainway --version" in asked["versions"]["description"]
    assert asked["orchestrator"]["options"][:-1] == [each.value for each in Orchestrator]


def test_dependabot_covers_every_folder_with_pinned_dependencies() -> None:
    updates = read(GITHUB / "dependabot.yml")["updates"]
    by_kind = {each["package-ecosystem"]: each.get("directories") or [each["directory"]] for each in updates}
    assert by_kind.keys() == {"pip", "npm", "docker", "github-actions"}
    listed = subprocess.run(["git", "ls-files", "*Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(by_kind["docker"]) == {f"/{Path(file).parent}" for file in listed.stdout.split()}
