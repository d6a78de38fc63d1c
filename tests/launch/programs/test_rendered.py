"""The examples of other people's programs are short job files, and every target's own definition accepts them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.launch.conftest import make_hand_off
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.programs.runs_here import JOBS, ROOT, RUNS_HERE
from tests.launch.sagemaker.requests import CATALOGUE, IMAGE, on_sagemaker
from tests.manifests.platforms import platform_of
from tests.seams.kubernetes.reader import read
from tests.seams.kubernetes.run_files import missing_files
from tests.service_model import problems
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import KubernetesOptions, as_yaml, render_documents
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import LockedPackages
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import DATA, SageMakerOptions, render_request
from trainway.launch.starting.prepare import check_job
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

PAGE = (ROOT / "docs" / "programs.md").read_text()
FILES = sorted(file for file in JOBS.glob("*/*.yaml") if "run" in yaml.safe_load(file.read_text()))
IDS = [f"{file.parent.name}/{file.stem}" for file in FILES]
LONGEST_RUN = 10
LOCK = LockedPackages("trl==1.16.0 --hash=sha256:" + "0" * 64, is_for_image=True)
NODES = [{"name": "train", "instance_type": "p5.48xlarge", "count": 4}]


def requested(file: Path, hand_off: HandOff) -> Request:
    program = load_program(file)
    program = replace(program, lock=LOCK if program.packages else None)
    if hand_off.teams:
        program = replace(program, team=hand_off.teams[0])
    return Request(
        program, program.name, hand_off, IMAGE, allocate(program, hand_off, CATALOGUE), "s3://atlas-data/c.tar.gz"
    )


def kinds_of(file: Path) -> list[Any]:
    """Return the kind of object that the job file names, or else all kinds for torchrun."""
    named = yaml.safe_load(file.read_text()).get("kubernetes", {}).get("kind")
    return [named] if named else ["TrainJob", "PyTorchJob", "JobSet"]


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_a_job_file_is_sound_and_short(file: Path) -> None:
    assert check_job(file)
    lines = [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    section = lines[lines.index("run:") + 1 :]
    end = next((number for number, line in enumerate(section) if not line.startswith(" ")), len(section))
    assert end <= LONGEST_RUN


def test_each_program_has_a_section_of_the_page() -> None:
    shown = set(re.findall(r"\]\(\.\./examples/jobs/([\w-]+)\) \|", PAGE))
    assert shown == {file.parent.name for file in FILES} and len(shown) == 12
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    for linked in re.findall(r"^\| \[[^\]]+\]\(#([\w-]+)\)", PAGE, re.MULTILINE):
        assert linked in [heading.lower().replace(" ", "-") for heading in headings]


def test_the_page_shows_the_lines_by_which_the_scripts_resume() -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        scripts = [file.read_text() for file in JOBS.glob("*/train.py")]
        for line in block.splitlines():
            call = re.split(r"[(=]", line.strip())[0]
            assert any(call in script for script in scripts), line
    assert set(RUNS_HERE) < {file.parent.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_kubernetes_takes_its_objects(file: Path) -> None:
    operators = {"pytorch_operator": True, "mpi_operator": True}
    platform = platform_of(node_groups=NODES, teams=[], kubernetes=operators)
    assert platform.kubernetes is not None
    for kind in kinds_of(file):
        asked = requested(file, hand_off_of(platform))
        rendered = as_yaml(render_documents(asked, CATALOGUE, KubernetesOptions(kind=kind)))
        documents = list(yaml.safe_load_all(rendered))
        found = {(each["kind"], problem) for each in documents for problem in read(each, platform.kubernetes.version)}
        assert found == set() and missing_files(documents) == [], kind


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_hyperpods_operator_takes_the_programs_that_torchrun_starts(file: Path) -> None:
    platform = platform_named("governance")
    asked = requested(file, hand_off_of(platform))
    try:
        documents = render_documents(asked, CATALOGUE, KubernetesOptions(kind="HyperPodPyTorchJob"))
    except UsageError as error:
        assert "hyperpodrun starts the ranks of a HyperPodPyTorchJob in place of torchrun" in str(error)
        assert asked.program.is_script or asked.program.command[0] != "torchrun"
        return
    submitted = list(yaml.safe_load_all(as_yaml(documents)))
    assert submitted[-1]["kind"] == "HyperPodPyTorchJob" and missing_files(submitted) == []
    version = platform.kubernetes_or_default.version
    assert [problem for each in submitted for problem in read(each, version)] == []


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_sagemaker_takes_its_training_job(file: Path) -> None:
    asked = requested(file, on_sagemaker(make_hand_off()))
    for data in DATA:
        try:
            rendered = render_request(asked, CATALOGUE, SageMakerOptions(data=data))
        except UsageError as error:
            # Their inputs are paths of the file system, which only one option has.
            assert data != "fsx" and "without --data fsx" in str(error)
        else:
            assert problems("sagemaker", "CreateTrainingJob", rendered) == []
