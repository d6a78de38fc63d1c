"""A target of a package beside Trainway: the steps of the recipe, run as the page has them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.conftest import write_job

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/recipes/launch-target.md"
COPY, INSTALL, LAUNCH, RESUME = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


class Person:
    """Someone who follows the page, in a directory with the examples and a job file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "examples").symlink_to(ROOT / "examples")
        absent = str(directory / "absent")
        write_job(directory, data={"train": absent}, checkpoint={"location": str(directory / "checkpoints")})
        programs = directory / "bin"
        programs.mkdir()
        # An installation of this checkout: `pip` installs beside it, into a folder of the test's own.
        for name, module in {"pip": "pip", "trainway": "trainway.cli"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            (programs / name).chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT}:{directory / 'site'}",
            "PIP_TARGET": str(directory / "site"),
            "PIP_NO_INDEX": "1",
            "HOME": str(directory),
            "COLUMNS": "200",
        }

    def follow(self, step: str, *, status: int = 0) -> str:
        """Run the commands of a step as a shell does, and return all that they print."""
        done = subprocess.run(
            ["bash", "-e"],
            input=step,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
            env=self.environment,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def phase(self) -> str:
        (row,) = json.loads(self.follow("trainway status --json first"))
        assert row["target"] == "background"
        return str(row["phase"])


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    person = Person(tmp_path_factory.mktemp("recipe"))
    person.follow(COPY)
    person.follow(INSTALL)
    return person


@pytest.mark.exhaustive
def test_the_page_brings_a_run_from_its_launch_to_its_explanation(person: Person) -> None:
    launched = person.follow(LAUNCH)
    assert "nice --adjustment=5 env " in launched and "python3 -m training.elastic" in launched
    assert (person.directory / "runs/first/launch.json").exists()
    record = json.loads((person.directory / "runs/first/launch.json").read_text())
    assert record["options"]["target"] == {"niceness": 5}
    assert person.phase() == "stopped"

    resumed = person.follow(RESUME)
    assert person.phase() == "failed"
    assert "there are no token shards here" in resumed
    assert re.search(r"^cause: .*", resumed, re.MULTILINE)
    record = json.loads((person.directory / "runs/first/launch.json").read_text())
    assert record["options"]["target"] == {"niceness": 5}, "resumed as it was launched"


@pytest.mark.exhaustive
def test_its_flag_is_on_the_help_page_and_is_refused_elsewhere(person: Person) -> None:
    shown = person.follow("trainway launch --help")
    assert "In the background of this machine" in shown and "--niceness" in shown
    assert "local|slurm|kubernetes|sagemaker|background" in shown
    refused = person.follow("trainway launch job.yaml --niceness 5", status=2)
    assert "`--niceness` is not supported by the `local` target" in refused
    refused = person.follow("trainway launch job.yaml --target background --processes 2", status=2)
    assert "`--processes` is not supported by the `background` target" in refused
    refused = person.follow("trainway launch job.yaml --target background --group train", status=2)
    assert "`--group` is not supported by the `background` target" in refused


def test_a_target_that_cannot_be_imported_keeps_no_other_from_launching(person: Person, tmp_path: Path) -> None:
    broken = tmp_path / "broken-1.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (broken / "entry_points.txt").write_text("[trainway.targets]\nbroken = absent_module:TARGET\n")
    search = f"PYTHONPATH=$PYTHONPATH:{tmp_path}"
    said = person.follow(f"{search} trainway launch job.yaml --target background --dry-run")
    assert "warning: a run on broken cannot be launched" in said and "absent_module" in said
    assert "python3 -m training.elastic" in said


def test_no_target_is_imported_by_a_command_that_needs_none() -> None:
    program = (
        "import sys\nsys.argv = ['trainway', '--help']\nfrom trainway.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not [name for name in sys.modules if name.startswith('trainway.launch')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=dict(os.environ), capture_output=True)
