"""The workflow that proves the image is valid on GitHub, and runs commands that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from container import cpu_proof

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "container/cpu_proof.py"
WORKFLOW = ROOT / ".github/workflows/image.yml"


def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return loaded


def steps() -> list[dict[str, Any]]:
    return [step for job in workflow()["jobs"].values() for step in job["steps"]]


def refused(file: Path) -> bool:
    """Whether the published schema of GitHub's workflows refuses a file."""
    import check_jsonschema

    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", "vendor.github-workflows", str(file)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return bool(done.exit_code)


def test_the_workflow_has_the_published_schema(tmp_path: Path) -> None:
    assert not refused(WORKFLOW)
    text = WORKFLOW.read_text(encoding="utf-8")
    for right, wrong in {"runs-on:": "runs_on:", "contents: read": "contents: reed"}.items():
        assert right in text
        planted = tmp_path / "image.yml"
        planted.write_text(text.replace(right, wrong))
        assert refused(planted), wrong


def test_the_workflow_may_only_read_and_its_actions_do_not_move() -> None:
    assert workflow()["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow()["jobs"].values())
    actions = [step["uses"] for step in steps() if "uses" in step]
    assert len(actions) >= 3
    assert all(re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", action) for action in actions), actions


def test_the_workflow_proves_a_tag_once_by_commands_that_exist() -> None:
    by_name = {step["name"]: step for step in steps() if "name" in step}
    commands = [step["run"] for step in steps() if "run" in step]
    scripts = re.findall(r"python (\S+\.py)", "\n".join(commands))
    assert set(scripts) == {str(SCRIPT.relative_to(ROOT))} and SCRIPT.exists()
    earlier, kept = by_name["Look for an earlier proof"], by_name["Keep the proof"]
    assert "steps.image.outputs.tag" in earlier["with"]["key"]
    assert kept["with"]["key"] == "${{ steps.earlier.outputs.cache-primary-key }}"
    assert earlier["with"]["path"] == kept["with"]["path"] == str(cpu_proof.LOG.relative_to(ROOT))
    built = by_name["Build the image and train in it"]
    assert "cache-hit" in built["if"] and "workflow_dispatch" in built["if"]
    assert set(workflow()[True]) == {"push", "pull_request", "workflow_dispatch"}  # YAML reads `on` as a boolean
