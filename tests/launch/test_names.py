"""Names and paths of the command line are checked before anything is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import run_trainway
from trainway.launch.job_file.programs import program_of
from trainway.launch.program.request import run_name
from trainway.launch.runs.names import LONGEST_RUN_NAME, check_directory_name, check_login_name, check_run_name
from trainway.spec.errors import UsageError

INJECTED = "first\n#SBATCH --account=root"


@pytest.mark.parametrize("name", ["", "../first", "/first", "First", "-first", "first-", "a b", "a.b", "é", INJECTED])
def test_a_run_on_a_platform_has_the_name_of_an_object(name: str) -> None:
    with pytest.raises(UsageError, match="lower-case letters, digits and hyphens"):
        check_run_name(name)


def test_a_run_name_is_not_longer_than_a_pods_name_can_be() -> None:
    assert check_run_name("a" * LONGEST_RUN_NAME)
    with pytest.raises(UsageError, match=f"up to {LONGEST_RUN_NAME}"):
        check_run_name("a" * (LONGEST_RUN_NAME + 1))


def test_names_that_the_launcher_makes_are_taken() -> None:
    program = program_of({"name": "a" * 40, "run": {"command": ["true"]}}, "")
    assert check_run_name(run_name(program))


@pytest.mark.parametrize("path", ["", " ", INJECTED, "runs/\x1b[2J"])
def test_a_directory_is_one_that_a_log_can_show(path: str) -> None:
    with pytest.raises(UsageError, match="a run cannot have the directory"):
        check_directory_name(path)


@pytest.mark.parametrize("name", ["", "-oProxyCommand=id", "ada;id", "ada\nroot", "a b", "$(id)"])
def test_a_login_name_is_one(name: str) -> None:
    with pytest.raises(UsageError, match="nobody is called"):
        check_login_name(name)
    assert check_login_name("Ada.Lovelace@example.com")


@pytest.mark.parametrize("location", ["fsx:/../etc", "fsx:/runs/../../etc", "s3:/a/..", '"fsx:/a\\nb"'])
def test_a_location_does_not_lead_out_of_its_root(location: str, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(f"name: first\nrun:\n  command: [echo]\n  inputs: {{data: {location}}}\n")
    checked = run_trainway("check", str(job), directory=tmp_path)
    assert checked.returncode == 2
    assert "4:12: run.inputs.data" in checked.stderr
    assert "leads out of the place" in checked.stderr
