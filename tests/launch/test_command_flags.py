"""`--env` and `--packages` of a launch without a job file have the meaning and the rules of the keys of job files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.launch.conftest import write_job
from trainway.cli import app
from trainway.launch.job_file.programs import CommandFlags, interactive_program, load_program, program_of_command
from trainway.launch.program.program import Program
from trainway.launch.program.trackers import ProgramTrackers
from trainway.launch.starting.start import points_of_command
from trainway.spec import strict_yaml
from trainway.spec.errors import UsageError

WORDS = ["torchrun", "train.py"]
VALUE = "hf_never_shown"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEED", "7")
    monkeypatch.setenv("HF_TOKEN", VALUE)
    monkeypatch.delenv("ABSENT", raising=False)
    monkeypatch.delenv("ABSENT_TOKEN", raising=False)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "listed").write_text("trl==1.16.0\n")
    return tmp_path


def same(program: Program) -> Program:
    """Return a program without its text, and without trackers, whose functions compare as unequal."""
    return replace(program, text="", trackers=ProgramTrackers())


def of_job_file(home: Path, run: dict[str, Any]) -> Program:
    job = {"name": "train", "nodes": 1, "run": {"command": WORDS, "code": str(home), **run}}
    (home / "job.yaml").write_text(strict_yaml.dump(job))
    return load_program(home / "job.yaml")


@pytest.mark.parametrize(
    ("flags", "run"),
    [
        (
            {"environment": ["LR=1e-4", "EMPTY=", "SIDES=a=b"]},
            {"environment": {"LR": "1e-4", "EMPTY": "", "SIDES": "a=b"}},
        ),
        ({"environment": ["SEED"]}, {"environment": {"SEED": "7"}}),
        ({"environment": ["HF_HOME=fsx:/hf"]}, {"environment": {"HF_HOME": "fsx:/hf"}}),
        ({"packages": ["trl==1.16.0", "peft>=0.20,<1"]}, {"packages": ["trl==1.16.0", "peft>=0.20,<1"]}),
        ({"packages": ["absent.txt"]}, {"packages": "absent.txt"}),
        ({"packages": ["lists/of.mine"]}, {"packages": "lists/of.mine"}),
        ({"packages": ["listed"]}, {"packages": "listed"}),
    ],
)
def test_flags_make_the_program_of_a_job_file(flags: dict[str, Any], run: dict[str, Any], home: Path) -> None:
    made, written = program_of_command(WORDS, home, CommandFlags(**flags)), of_job_file(home, run)
    assert same(made) == same(written)
    # The record of the run has a job file with the same keys, by which `trainway resume` starts it again.
    (home / "record.yaml").write_text(made.text)
    assert same(load_program(home / "record.yaml")) == same(written)


def test_each_run_of_an_array_and_a_shell_have_the_variables() -> None:
    flags = CommandFlags(environment=["SEED"], packages=["trl"])
    for point in points_of_command(WORDS, ["run.array_index=0,1"], flags):
        assert point.program.environment["SEED"] == "7" and point.program.packages is not None
    shell = interactive_program(None, flags)
    assert shell.environment == {"SEED": "7"} and shell.packages is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--env=ABSENT", "train.py"], ["--env ABSENT has no value", "export ABSENT, or write --env ABSENT=VALUE"]),
        (["--env=HF_TOKEN", "train.py"], ["with --env", "HF_TOKEN looks like a secret", "`secrets: {HF_TOKEN: NAME}`"]),
        (["--env=ABSENT_TOKEN", "train.py"], ["ABSENT_TOKEN looks like a secret", "docs/your-program.md"]),
        ([f"--env=API_KEY={VALUE}", "--interactive"], ["with --env", "API_KEY looks like a secret"]),
        (["--env=PET_NNODES=2", "train.py"], ["with --env", "the launcher sets PET_NNODES", "leave PET_NNODES out"]),
        (["--env=1A=2", "train.py"], ["'1A' is no name of a variable", "use letters, digits, and underscores"]),
        (["--env==2", "train.py"], ["'' is no name of a variable"]),
        (["--env=A=1", "--env=A=2", "train.py"], ["--env A is given twice", "leave one out"]),
        (["--packages=trl=1", "train.py"], ["with --packages trl=1", "not a package of the index", "einops==0.8.1"]),
        (["--packages=git+https://x/y", "train.py"], ["with --packages git+https://x/y", "not a package of the index"]),
        (["--packages=trl", "--packages=listed", "train.py"], ["one file", "write the packages into listed"]),
        (["--packages=absent.txt", "train.py"], ["run.packages cannot be read", "absent.txt"]),
        (["--env=SEED", "job.yaml"], ["--env cannot be used with a job file", "set `run.environment` in job.yaml"]),
        (
            ["--packages=trl", "job.yaml"],
            ["--packages cannot be used with a job file", "set `run.packages` in job.yaml"],
        ),
        (["--env=SEED", "--interactive", "job.yaml"], ["--env cannot be used with a job file"]),
        (["--nodes=2", "job.yaml"], ["--nodes cannot be used with a job file", "set `nodes` in job.yaml"]),
    ],
)
def test_what_no_job_file_can_have_is_refused_before_anything_is_written(
    words: list[str], said: list[str], home: Path
) -> None:
    write_job(home)
    before = {each.name for each in home.iterdir()}
    refused = CliRunner().invoke(app, ["launch", *words])
    assert isinstance(refused.exception, UsageError), refused.exception
    message = str(refused.exception)
    assert all(each in message for each in said), message
    assert "    why: " in message and "    fix: " in message
    assert VALUE not in message + refused.output
    assert {each.name for each in home.iterdir()} == before
