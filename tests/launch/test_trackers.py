"""Trackers of a job file at its launch: the variables that programs get, and what is refused before the launch."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.sweep import Point
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.kubernetes.render import as_yaml
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import Program
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import render_request
from trainway.launch.slurm import render_script
from trainway.launch.starting.job_checks import (
    PIP_IN_IMAGE,
    check_tracker_network,
    check_tracker_packages,
    check_tracker_rights,
    with_platform_mlflow,
)
from trainway.launch.starting.job_packages import TargetPython, python_here
from trainway.launch.starting.prepare import Launch, allocated_requests, requests_here
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.loader import load_platform
from trainway.spec.sections.network import Network
from trainway.spec.sections.observability import Observability

APP = "arn:aws:sagemaker:us-west-2:123456789012:mlflow-app/app-ABC"


def own_program(directory: Path, **trackers: Any) -> Program:
    job = yaml.safe_load(Path("examples/jobs/tiny.yaml").read_text()) | {"trackers": trackers}
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return load_program(file)


def foreign_program(directory: Path, **trackers: Any) -> Program:
    file = write_foreign_job(directory, environment={"WANDB_NAME": "mine"})
    file.write_text(file.read_text() + yaml.safe_dump({"trackers": trackers}))
    return load_program(file)


@pytest.mark.exhaustive
def test_another_program_reports_to_the_same_run_after_a_resume(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    program = foreign_program(
        tmp_path,
        mlflow={"tracking_uri": uri, "experiment": "llamas"},
        wandb={"mode": "offline", "project": "llamas", "secret": "wandb"},
        comet={"workspace": "lab"},
    )
    told = program.variables("first-1127", PurePosixPath("/runs/first-1127"), {})
    code = (
        "import mlflow, wandb\n"
        "run = wandb.init()\n"
        "mlflow.set_tracking_uri(None); experiment = mlflow.get_experiment(mlflow.start_run().info.experiment_id)\n"
        "print(run.project, run.id, run.name, mlflow.get_tracking_uri(), experiment.name)\n"
    )
    command = [sys.executable, "-c", code]
    environment = os.environ | told | {"WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.split() == ["llamas", "first-1127", "mine", uri, "llamas"]
    assert told["WANDB_RESUME"] == "allow"
    assert told["COMET_PROJECT_NAME"] == program.name and told["COMET_WORKSPACE"] == "lab"
    key = told["COMET_EXPERIMENT_KEY"]
    assert key.isalnum() and 32 <= len(key) <= 50
    assert program.variables("second", PurePosixPath("/runs"), {})["COMET_EXPERIMENT_KEY"] != key
    assert "--secret=WANDB_API_KEY=wandb" in (program.started_by or ())
    assert not any("API_KEY" in name for name in told), "only the node reads a secret"


def test_each_target_tells_its_nodes_the_trackers_and_no_secret(
    tmp_path: Path, hand_off: HandOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "value-of-the-key")
    uri = "https://mlflow.example.com"
    trackers = {"mlflow": {"tracking_uri": uri}, "wandb": {"secret": "wandb"}, "comet": {"secret": "trackers#comet"}}
    program = foreign_program(tmp_path, **trackers)

    def asked(there: HandOff) -> Request:
        own = dataclasses.replace(program, team=there.teams[0] if there.teams else None)
        return Request(own, "first", there, IMAGE, allocate(own, there, CATALOGUE))

    rendered = (
        as_yaml(render_documents(asked(hand_off_of(platform_named("kueue"))), CATALOGUE, KubernetesOptions())),
        render_script(asked(on_slurm(hand_off)), CATALOGUE),
        json.dumps(render_request(asked(on_sagemaker(hand_off)), CATALOGUE)),
    )
    words = ("--tracker=mlflow", "--tracker=wandb", "--tracker=comet", "--secret=WANDB_API_KEY=wandb")
    for text in rendered:
        for word in (*words, "--secret=COMET_API_KEY=trackers#comet", *program.variables("first", PurePosixPath(), {})):
            assert word in text, word
        for value in (uri, program.trackers.variables("first")["COMET_EXPERIMENT_KEY"]):
            assert value in text
        assert "value-of-the-key" not in text
    assert {"program_trackers.py", "open_tracker.py"} < set(program.files)
    assert not {"program_trackers.py", "open_tracker.py"} & set(foreign_program(tmp_path).files)


def test_the_training_job_is_told_its_run_only_if_it_has_trackers(tmp_path: Path) -> None:
    run = PurePosixPath("/runs/x")
    tracked = own_program(tmp_path, wandb={"secret": "wandb"})
    assert tracked.variables("x", run, {})["TRAINWAY_RUN_NAME"] == "x"
    assert tracked.secrets == {"WANDB_API_KEY": "wandb"}
    assert "TRAINWAY_RUN_NAME" not in own_program(tmp_path).variables("x", run, {})


def test_an_absent_package_is_refused_before_the_launch(tmp_path: Path) -> None:
    program = own_program(tmp_path, wandb={}, mlflow={"tracking_uri": APP})
    found = python_here()
    packages = {name: version for name, version in found.packages.items() if name != "sagemaker-mlflow"}
    python = TargetPython("x", "3.12", None, packages)
    with pytest.raises(UsageError, match=r"trackers\.mlflow") as caught:
        check_tracker_packages(program, lambda: python, PIP_IN_IMAGE)
    assert "the package sagemaker-mlflow is not installed" in str(caught.value)
    assert "add sagemaker-mlflow to `image.packages.pip`" in str(caught.value)
    whole = TargetPython("x", "3.12", None, {**python.packages, "sagemaker-mlflow": "1"})
    check_tracker_packages(program, lambda: whole, PIP_IN_IMAGE)
    check_tracker_packages(foreign_program(tmp_path, comet={}), lambda: python, PIP_IN_IMAGE)


@pytest.mark.parametrize(
    ("trackers", "sentence"),
    [
        ({"wandb": {}}, "cannot reach api.wandb.ai"),
        ({"comet": {}}, "cannot reach www.comet.com"),
        ({"mlflow": {"tracking_uri": APP}}, "the VPC has no endpoint"),
        ({"wandb": {"mode": "offline"}}, ""),
        ({"comet": {"mode": "offline"}}, ""),
        ({"wandb": {"base_url": "https://wandb.example.com"}}, ""),
        ({"mlflow": {"tracking_uri": "https://mlflow.example.com"}}, ""),
    ],
)
def test_a_closed_network_refuses_trackers_on_the_internet(
    trackers: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    program, platform = own_program(tmp_path, **trackers), platform_named("kueue")
    check_tracker_network(program, platform)
    closed = platform.model_copy(update={"network": Network(access="closed")})
    with pytest.raises(UsageError, match=sentence) if sentence else nullcontext():
        check_tracker_network(program, closed)


@pytest.mark.parametrize("write", [own_program, foreign_program])
def test_the_platform_names_the_mlflow_of_a_job_that_names_none(write: Any, tmp_path: Path) -> None:
    program, platform = write(tmp_path, mlflow={"experiment": "llamas"}), platform_named("kueue")
    for nothing, why in ((None, "this machine has no platform"), (platform, "has no `observability.mlflow`")):
        with pytest.raises(UsageError, match=why):
            with_platform_mlflow(program, nothing)
    platform = platform.model_copy(update={"observability": Observability(mlflow=APP)})
    told = with_platform_mlflow(program, platform)
    variables = told.variables("first", PurePosixPath("/runs/first"), {})
    assert variables["MLFLOW_TRACKING_URI"] == APP
    check_tracker_rights(told, platform)
    closed = platform.model_copy(update={"network": Network(access="closed")})
    with pytest.raises(UsageError, match="the VPC has no endpoint"):
        check_tracker_network(told, closed)
    of_file = write(tmp_path, mlflow={"tracking_uri": "https://mlflow.example.com"})
    assert with_platform_mlflow(of_file, platform) is of_file


def test_a_launch_reports_to_the_mlflow_of_the_platform(tmp_path: Path) -> None:
    program = dataclasses.replace(foreign_program(tmp_path, mlflow={}), team="research")
    platform = load_platform(Path("examples/eks-p5.yaml"))
    platform = platform.model_copy(update={"observability": Observability(mlflow=APP)})
    launch = Launch([Point(program, {})], tmp_path / "platform.yaml", source="file", loaded=platform)
    (request,) = allocated_requests(launch)
    assert APP in as_yaml(render_documents(request, CATALOGUE, KubernetesOptions()))
    with pytest.raises(UsageError, match="this machine has no platform"):
        requests_here(dataclasses.replace(launch, dry_run=True))


def test_the_mlflow_of_sagemaker_is_the_one_that_jobs_of_the_platform_may_call(tmp_path: Path) -> None:
    program, platform = own_program(tmp_path, mlflow={"tracking_uri": APP}), platform_named("kueue")
    for other in (None, f"{APP}D"):
        told = platform.model_copy(update={"observability": Observability(mlflow=other)})
        with pytest.raises(UsageError, match="may not call") as caught:
            check_tracker_rights(program, told)
        assert f"set `observability: {{mlflow: {APP}}}`" in str(caught.value)
    check_tracker_rights(program, platform.model_copy(update={"observability": Observability(mlflow=APP)}))
    check_tracker_rights(own_program(tmp_path, wandb={}), platform)
