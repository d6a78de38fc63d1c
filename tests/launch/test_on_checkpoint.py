"""Check the section `on_checkpoint` with its job, and pass the checkpoint to the evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.launch.conftest import write_job
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.slurm.requests import CATALOGUE, IMAGE
from tests.seams.kubernetes import reader
from tests.seams.kubernetes.definitions import need_definitions
from tests.service_model import problems
from training.config import load
from trainway.cli import app
from trainway.launch.job_file.programs import evaluation_program, load_program
from trainway.launch.job_file.sweep import sweep
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.program.allocation import allocate
from trainway.launch.program.on_checkpoint import EvaluatedCheckpoint
from trainway.launch.program.request import Request
from trainway.launch.runs.names import LONGEST_RUN_NAME, check_run_name, prefix_of_evaluations
from trainway.launch.sagemaker import DATA, SageMakerOptions, render_request
from trainway.launch.starting.prepare import check_job
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.problems import SpecError

EVALUATION = {"name": "evaluate", "run": {"command": ["python", "-c", "pass"]}}
MARKER = "checkpoint-{step}/trainer_state.json"


def write(directory: Path, section: Mapping[str, Any] | None, evaluation: Any = EVALUATION, **job: Any) -> Path:
    """Write a job file of a program, and the file of its evaluation beside it."""
    document = {"name": "sft", "run": {"command": ["python", "-c", "pass"]}, **job}
    if section is not None:
        document["on_checkpoint"] = section
    (directory / "sft.yaml").write_text(yaml.safe_dump(document))
    (directory / "evaluate.yaml").write_text(evaluation if isinstance(evaluation, str) else yaml.safe_dump(evaluation))
    return directory / "sft.yaml"


def problem(file: Path) -> str:
    with pytest.raises(SpecError) as raised:
        load_program(file)
    return str(raised.value)


@pytest.mark.parametrize(
    ("section", "evaluation", "key", "why", "fix"),
    [
        ({"job": "evaluate.yaml"}, EVALUATION, "on_checkpoint", "does not say when a checkpoint is", "add `marker`"),
        ({"marker": MARKER}, EVALUATION, "on_checkpoint.job", "the key is required", "Path of the job file"),
        ({"job": 7, "marker": MARKER}, EVALUATION, "on_checkpoint.job", "neither a path nor a job", "evaluate.yaml"),
        ({"job": "gone.yaml", "marker": MARKER}, EVALUATION, "on_checkpoint.job", "there is no such file", "check"),
        ({"job": "evaluate.yaml", "marker": "last"}, EVALUATION, "on_checkpoint.marker", "with {step} once", "trainer"),
        ({"job": "evaluate.yaml", "marker": MARKER, "every": 0}, EVALUATION, "on_checkpoint.every", "less than 1", "1"),
        (
            {"job": "evaluate.yaml", "marker": MARKER},
            {**EVALUATION, "on_checkpoint": {"job": "evaluate.yaml", "marker": MARKER}},
            "on_checkpoint.job",
            "evaluate.yaml:2:1: on_checkpoint: an evaluation has no evaluations of its own",
            "remove `on_checkpoint` there",
        ),
        (
            {"job": "evaluate.yaml", "marker": MARKER},
            "name: evaluate\nrun:\n  command: [true]\n  metrics: {loss: '('}\n",
            "on_checkpoint.job",
            "evaluate.yaml:4:13: run.metrics.loss: it is no regular expression",
            "escape special characters",
        ),
        (
            {"job": {"name": "inline", "run": {"comand": ["true"]}}, "marker": MARKER},
            EVALUATION,
            "on_checkpoint.job.run.comand",
            "there is no such key here",
            "did you mean command?",
        ),
    ],
)
def test_a_wrong_evaluation_is_explained_where_it_is(
    section: dict[str, Any], evaluation: Any, key: str, why: str, fix: str, tmp_path: Path
) -> None:
    told = problem(write(tmp_path, section, evaluation))
    assert re.search(rf"sft\.yaml:\d+:\d+: {re.escape(key)}[ \n]", told), told
    assert why in told and fix in told, told


def test_the_training_job_has_a_marker_and_its_own_interval(tmp_path: Path) -> None:
    write(tmp_path, None)
    section = {"job": "evaluate.yaml", "every": 8, "at_most": 2, "group": "small"}
    found = load_program(write_job(tmp_path, on_checkpoint=section)).on_checkpoint
    assert found is not None
    assert (found.marker, found.every, found.at_most, found.group) == (
        "s3:/checkpoints/small/step-{step}/.metadata",
        8,
        2,
        "small",
    )
    assert load(tmp_path / "job.yaml").name == "small", "the job itself ignores the section"
    assert "use a multiple of 4, such as 8" in problem(write_job(tmp_path, on_checkpoint={**section, "every": 6}))
    told = problem(write_job(tmp_path, on_checkpoint={**section, "marker": MARKER}))
    assert "the checkpoints of the training job are known" in told


def test_check_names_both_jobs_and_refuses_code_that_the_evaluation_lacks(tmp_path: Path) -> None:
    file = write(tmp_path, {"job": "evaluate.yaml", "marker": MARKER})
    assert check_job(file)[0] == "sft on 1 node, and for its checkpoints evaluate on 1 node"
    lacking = {**EVALUATION, "run": {**EVALUATION["run"], "code": "elsewhere"}}  # type: ignore[dict-item]
    write(tmp_path, {"job": "evaluate.yaml", "marker": MARKER}, lacking)
    with pytest.raises(UsageError, match=r"evaluate cannot be launched\n    why: there is no directory"):
        check_job(file)
    shown = CliRunner().invoke(app, ["schema", "job"]).stdout
    assert '"OnCheckpointSection"' in shown


def test_an_evaluation_is_told_its_checkpoint_and_keeps_its_file(tmp_path: Path) -> None:
    program = load_program(write(tmp_path, {"job": "evaluate.yaml", "marker": MARKER}))
    assert program.on_checkpoint is not None
    evaluation = EvaluatedCheckpoint("first", 500, "fsx:/runs/first/outputs/checkpoint-500")
    made = evaluation_program(program.on_checkpoint, evaluation, None)
    assert made.text == (tmp_path / "evaluate.yaml").read_text()
    roots = {"fsx": "/fsx", "s3": "s3://bucket"}
    told = made.variables("first-step-500", Path("/fsx/runs/first-step-500"), roots)
    assert told["TRAINWAY_CHECKPOINT"] == "/fsx/runs/first/outputs/checkpoint-500"
    assert (told["TRAINWAY_CHECKPOINT_STEP"], told["TRAINWAY_EVALUATED_RUN"]) == ("500", "first")
    assert evaluation.checkpoint in made.inputs and evaluation.checkpoint in made.locations
    assert evaluation_program(program.on_checkpoint, evaluation, "research").team == "research"
    # The record of the run contains the job of its evaluations. The nodes do not need it.
    assert "on_checkpoint.job.yaml" in program.kept_files and "on_checkpoint.job.yaml" not in program.files


def test_a_training_job_starts_from_the_weights_with_checkpoints_of_its_own(tmp_path: Path) -> None:
    inner = yaml.safe_load(write_job(tmp_path, name="probe", checkpoint={"location": "s3:/checkpoints/p"}).read_text())
    program = load_program(write(tmp_path, {"job": inner, "marker": MARKER}))
    assert program.on_checkpoint is not None
    made = evaluation_program(
        program.on_checkpoint, EvaluatedCheckpoint("first", 8, "s3:/checkpoints/sft/8"), "research"
    )
    document = yaml.safe_load(made.text)
    assert document["checkpoint"] == {"location": "s3:/checkpoints/p-8", "start_from": "s3:/checkpoints/sft/8"}
    assert (made.name, made.team) == ("probe-8", "research")
    assert "s3:/checkpoints/sft/8" in made.locations


def test_the_record_of_a_run_has_its_evaluation_and_a_sweep_keeps_it(tmp_path: Path) -> None:
    file = write(tmp_path, {"job": "evaluate.yaml", "marker": MARKER})
    program = load_program(file)
    run = tmp_path / "runs/first"
    run.mkdir(parents=True)
    for name, text in {"job.yaml": program.text, **program.kept_files}.items():
        (run / name).write_text(text)
    (tmp_path / "evaluate.yaml").unlink()
    kept = load_program(run / "job.yaml").on_checkpoint
    assert kept is not None and program.on_checkpoint is not None and kept.text == program.on_checkpoint.text
    write(tmp_path, {"job": "evaluate.yaml", "marker": MARKER})
    points = sweep(file.read_text(), ["run.array_index=0,1"], None, tmp_path)
    assert [point.program.on_checkpoint is not None for point in points] == [True, True]


def test_names_of_evaluations_are_names_of_runs_and_each_run_has_its_own() -> None:
    runs = ["first", "llama-8b-1121-100000", *(f"a-run-with-a-name-that-is-very-long-{n}" for n in "12")]
    prefixes = [prefix_of_evaluations(run) for run in runs]
    assert len(set(prefixes)) == len(runs)
    assert prefixes[:2] == ["first-step-", "llama-8b-1121-100000-step-"]
    assert all(len(check_run_name(f"{prefix}999999999")) <= LONGEST_RUN_NAME for prefix in prefixes)


def evaluation_on(hand_off: HandOff, directory: Path, checkpoint: str) -> Request:
    """Return the request of an evaluation on a platform."""
    program = load_program(write(directory, {"job": "evaluate.yaml", "marker": MARKER}))
    assert program.on_checkpoint is not None
    team = hand_off.teams[0] if hand_off.teams else None
    made = evaluation_program(program.on_checkpoint, EvaluatedCheckpoint("first", 500, checkpoint), team)
    run = f"{prefix_of_evaluations('first')}500"
    return Request(made, run, hand_off, IMAGE, allocate(made, hand_off, CATALOGUE))


def test_kubernetes_takes_an_evaluation(tmp_path: Path) -> None:
    asked = evaluation_on(hand_off_of(platform_named("kueue")), tmp_path, "fsx:/runs/first/outputs/checkpoint-500")
    files, runtime, job = render_documents(asked, CATALOGUE, KubernetesOptions())
    need_definitions()
    version = platform_named("kueue").kubernetes_or_default.version
    assert [refusal for each in (files, runtime, job) for refusal in reader.read(each, version)] == []
    told = {each["name"]: each.get("value") for each in job["spec"]["trainer"]["env"]}
    assert told["TRAINWAY_CHECKPOINT"] == "/fsx/runs/first/outputs/checkpoint-500"
    assert told["TRAINWAY_CHECKPOINT_STEP"] == "500" and job["metadata"]["name"] == "first-step-500"


def test_sagemaker_takes_an_evaluation_and_its_checkpoint_in_every_way_of_data(
    tmp_path: Path, hand_off: HandOff
) -> None:
    asked = evaluation_on(on_sagemaker(hand_off), tmp_path, "s3:/checkpoints/llama/step-00000500")
    for data in DATA:
        rendered = render_request(asked, CATALOGUE, SageMakerOptions(data=data))
        assert problems("sagemaker", "CreateTrainingJob", rendered) == []
        is_channel = data in ("file", "fast-file")
        there = "/opt/ml/input/data/data-0" if is_channel else "s3://atlas-data/checkpoints/llama/step-00000500"
        assert rendered["Environment"]["TRAINWAY_CHECKPOINT"] == there
        assert rendered["TrainingJobName"] == "first-step-500"
