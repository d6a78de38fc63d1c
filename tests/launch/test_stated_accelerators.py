"""Every target tells the nodes of a run what their instance type has, so that no job trains on the CPU unnoticed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.launch.conftest import load_job
from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.every_kind import documents_of, templates_of
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.sagemaker.requests import request as sagemaker_request
from tests.launch.slurm.requests import IMAGE, on_slurm
from tests.launch.slurm.requests import request as slurm_request
from tests.manifests.platforms import CATALOGUE
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import Kind
from trainway.launch.local import render_local
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import SageMakerOptions, render_request
from trainway.launch.slurm import render_script
from trainway.spec.handoff import HandOff

VARIABLE = "TRAINWAY_ACCELERATORS"
H100 = {"instance_type": "p5.48xlarge", "vendor": "nvidia", "name": "H100", "count": 8}
BATCH = {"global": 64, "micro": 1}


def told_by_script(script: str) -> dict[str, Any] | None:
    """Return what the nodes of a Slurm job read in the variable."""
    found = re.search(rf"^export {VARIABLE}=(.*)$", script, re.MULTILINE)
    return None if found is None else json.loads(shlex.split(found[1])[0])


def told_by_pods(documents: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
    """Return what each pod of a job reads in the variable."""
    containers = [each["spec"]["containers"][0] for each in templates_of(documents)]
    environments = [{each["name"]: each.get("value") for each in container["env"]} for container in containers]
    return [None if VARIABLE not in each else json.loads(str(each[VARIABLE])) for each in environments]


@pytest.mark.parametrize(("instance_type", "stated"), [("p5.48xlarge", H100), ("m7i.8xlarge", None)])
def test_a_job_under_slurm_and_on_sagemaker_is_told(
    instance_type: str, stated: dict[str, Any] | None, hand_off: HandOff, tmp_path: Path
) -> None:
    slurm = slurm_request(tmp_path, on_slurm(hand_off, instance_type=instance_type), batch=BATCH)
    assert told_by_script(render_script(slurm, CATALOGUE)) == stated
    sagemaker = sagemaker_request(tmp_path, on_sagemaker(hand_off, instance_type=instance_type), batch=BATCH)
    variables = render_request(sagemaker, CATALOGUE, SageMakerOptions(data="s3"))["Environment"]
    assert json.loads(variables.get(VARIABLE, "null")) == stated


@pytest.mark.parametrize(("instance_type", "stated"), [("p5.48xlarge", H100), ("m7i.2xlarge", None)])
@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_pod_of_every_kind_is_told(kind: Kind, instance_type: str, stated: dict[str, Any] | None) -> None:
    told = told_by_pods(documents_of(kind, instance_type, {}))
    assert told and all(each == stated for each in told), told


def test_a_program_is_told_as_well_and_this_machine_is_not(hand_off: HandOff, tmp_path: Path) -> None:
    there = on_slurm(hand_off, instance_type="p5.48xlarge")
    program = load_program(write_foreign_job(tmp_path))
    asked = Request(program, "first", there, IMAGE, allocate(program, there, CATALOGUE))
    assert told_by_script(render_script(asked, CATALOGUE)) == H100
    here = render_local(load_job(tmp_path), tmp_path / "run", processes=2, hand_off=hand_off)
    assert VARIABLE not in here.environment


def test_the_job_reads_what_the_launcher_states(
    hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.hosts.accelerators import stated_accelerators

    request = slurm_request(tmp_path, on_slurm(hand_off, instance_type="p5.48xlarge"), batch=BATCH)
    for name, value in request.environment(request.on_nodes()).items():
        monkeypatch.setenv(name, value)
    assert str(stated_accelerators()) == "p5.48xlarge has 8 H100"
