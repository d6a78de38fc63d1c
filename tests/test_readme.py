"""What the README says is so."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.command_line import run_trainway
from tests.known_day import on_known_day
from tests.synthesis import ROOT
from trainway.spec.loader import load_platform

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    ((?:make|trainway) [^#\n]*?)(?: +#.*)?$", TEXT, re.MULTILINE)
PLATFORM, TEAMS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def test_the_first_two_commands_are_all_the_set_up_there_is() -> None:
    assert COMMANDS[:2] == ["make run", "make test"]


def test_every_make_verb_exists() -> None:
    verbs = {command.split()[1] for command in COMMANDS if command.startswith("make")} | {"help", "lint"}
    for verb in verbs:
        subprocess.run(["make", "--dry-run", verb], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("trainway")])
def test_every_command_is_understood(command: str, tmp_path: Path) -> None:
    arguments = shlex.split(on_known_day(command))[1:]
    for name in ("platform.yaml", "examples"):  # what a command reads is here, what it writes stays out of here
        (tmp_path / name).symlink_to(ROOT / name)
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://localhost:9"}
    ran = run_trainway(*arguments, directory=tmp_path, environment=environment)
    if arguments[0] in ("logs", "stop", "explain", "report"):
        assert "there is no run" in ran.stderr
    elif arguments[0] == "launch":
        assert ran.returncode == 0 and "Could not connect to the endpoint" in ran.stderr, ran.stderr
    elif arguments[0] == "verify":
        assert "hand-off" in ran.stderr  # understood as far as one can be without a deployed platform
    elif arguments[0] == "diff":
        assert "AWS cannot be asked" in ran.stderr
    elif arguments[0] in ("preflight", "doctor"):
        assert "AWS cannot be asked" in ran.stdout and ran.returncode == 1
    elif arguments[0] == "adopt":
        assert "cannot be looked at" in ran.stderr  # nor without an account
    else:
        assert ran.returncode == 0, ran.stderr


def test_the_platform_file_is_a_good_one(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM)
    assert load_platform(file).node_groups[0].largest == 64


def test_its_teams_can_share_it(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(PLATFORM) | yaml.safe_load(TEAMS)))
    platform = load_platform(file)
    assert platform.task_governance
    assert sum(team.guarantee["p5.48xlarge"] for team in platform.teams) < platform.node_groups[0].largest


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_bundled_job_says_how_its_text_is_made() -> None:
    from trainway.demo import CORPUS

    job = ROOT / "examples/jobs/tiny.yaml"
    out = yaml.safe_load(job.read_text())["data"]["train"]
    assert shlex.join(["python", "-m", "training.prepare", *CORPUS, "--out", out]) in job.read_text()
