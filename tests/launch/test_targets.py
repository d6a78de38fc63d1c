"""Every target has options that a person can set, that a record keeps, and that no other target takes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import pytest
import yaml

from tests.launch.conftest import write_job
from tests.manifests.platforms import platform_of
from training.config import LAUNCHER_SECTIONS, load
from trainway.launch.job_file.programs import job_schema, load_program
from trainway.launch.slurm import SlurmOptions
from trainway.launch.target.known import own_target, target_named, target_names
from trainway.launch.target.options import Flag, declared_options, options_from, options_record
from trainway.spec.errors import UsageError
from trainway.spec.problems import SpecError
from trainway.spec.sections.orchestrator import Orchestrator

ROOT = Path(__file__).parents[2]
BUILT_IN = ("local", "slurm", "kubernetes", "sagemaker")
# A module of another package, with a target that has one option.
MODULE = """
from dataclasses import dataclass, replace
from typing import Annotated
from trainway.launch.local import TARGET as LOCAL
from trainway.launch.target.options import Flag

@dataclass(frozen=True)
class Options:
    {option}: Annotated[int, Flag("A number.")] = 1

TARGET = replace(LOCAL, name="{name}", options=Options)
"""


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_option_of_a_target_has_a_flag(name: str) -> None:
    target = target_named(name)
    assert target.name == name
    declared = declared_options(target.options)
    assert [each.field for each in declared] == [field.name for field in fields(target.options)]
    assert len({each.name for each in declared}) == len(declared)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("local", {"processes": 3}),
        ("slurm", {"borrow": True, "time_limit": 90, "environment": "/fsx/envs/ada", "user": "ada"}),
        ("kubernetes", {"kind": "MPIJob", "hang_seconds": 60}),
        ("sagemaker", {"time_limit": 90, "wait": 60, "keep_warm": 5, "check_nodes": False}),
    ],
)
def test_a_run_is_resumed_with_the_options_that_were_recorded(name: str, said: dict[str, Any]) -> None:
    target = target_named(name)
    options = options_from(target.options, said, name)
    recorded = options_record(options)
    assert said.items() <= recorded.items()
    assert options_from(target.options, recorded, name) == options != target.options()


def test_a_section_of_a_target_has_the_types_of_its_flags(tmp_path: Path) -> None:
    sections = {"slurm": {"borrow": True, "time_limit": 30}, "local": {"processes": 1}, "kubernetes": None}
    expected = {"slurm": {"borrow": True, "time_limit": 30}, "local": {"processes": 1}}
    training = write_job(tmp_path, **sections)
    assert load_program(training).options == expected
    assert load(training).name == "small", "the job itself ignores the sections"
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"name": "mine", "run": {"command": ["true"]}, **sections}))
    assert load_program(tmp_path / "run.yaml").options == expected
    with pytest.raises(SpecError) as caught:
        load_program(
            write_job(tmp_path, slurm={"borow": True}, sagemaker={"keep_warm": "long"}, local={"processes": 0})
        )
    found = {".".join(map(str, each.key)): (each.reason, each.remedy) for each in caught.value.problems}
    assert found["slurm.borow"] == ("there is no such key here", "did you mean borrow?")
    assert "whole number" in found["sagemaker.keep_warm"][0] and "less than" in found["local.processes"][0]
    assert len(found) == 3


def test_the_training_job_ignores_the_sections_of_all_targets_of_this_package() -> None:
    assert LAUNCHER_SECTIONS == BUILT_IN
    properties = job_schema()["$defs"]["SagemakerSection"]["properties"]
    assert set(properties) == {each.name for each in declared_options(target_named("sagemaker").options)}


def test_an_earlier_record_has_nothing_for_an_option_that_was_not_said() -> None:
    recorded = {"borrow": False, "time_limit": None, "environment": "/fsx/envs/ada", "user": None}
    assert options_from(SlurmOptions, recorded, "slurm") == SlurmOptions(environment=PurePosixPath("/fsx/envs/ada"))


def test_an_option_of_another_target_is_refused() -> None:
    with pytest.raises(UsageError, match="`--keep-warm` is not supported by the `slurm` target"):
        options_from(SlurmOptions, {"keep_warm": 5}, "slurm")


def test_a_field_without_a_flag_is_no_option_of_the_command_line() -> None:
    @dataclass(frozen=True)
    class Options:
        shown: Annotated[int, Flag("A number.")] = 1
        hidden: int = 2

    assert [each.name for each in declared_options(Options)] == ["shown"]


@pytest.mark.parametrize("orchestrator", Orchestrator)
def test_each_orchestrator_has_a_target_of_its_own(orchestrator: Orchestrator) -> None:
    groups = [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}]
    own = own_target(platform_of(orchestrator=orchestrator.value, node_groups=groups, teams=[]))
    assert own.name == ("kubernetes" if orchestrator.is_kubernetes else "slurm")


def test_a_target_that_nobody_registered_is_refused_by_its_name() -> None:
    assert target_names()[: len(BUILT_IN)] == BUILT_IN
    with pytest.raises(UsageError, match="a run on nomad cannot be watched"):
        target_named("nomad")


@pytest.mark.parametrize(
    ("entry", "name", "option", "why"),
    [
        ("mine", "mine", "run", "the target mine cannot have an option run"),
        pytest.param(
            *("mine", "mine", "target", "the target mine cannot have an option target"), marks=pytest.mark.exhaustive
        ),
        pytest.param("mine", "other", "number", "mine:TARGET has the name other", marks=pytest.mark.exhaustive),
        ("local", "local", "number", "local|slurm|kubernetes|sagemaker>"),
    ],
)
def test_a_target_of_another_package_takes_no_name_that_is_taken(
    entry: str, name: str, option: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MODULE.format(name=name, option=option))
    metadata = tmp_path / "mine-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[trainway.targets]\n{entry} = mine:TARGET\n")
    said = subprocess.run(
        [sys.executable, "-m", "trainway.cli", "launch", "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    )
    assert why in said.stdout + said.stderr
    assert "Traceback" not in said.stderr and "--number" not in said.stdout
