"""A section `run` is checked as a whole, and each target is told of it in its own words."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.platforms import hand_off_of, platform_named, without_copies
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.service_model import problems
from trainway.launch.job_file.programs import job_schema, load_program
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.local import render_local
from trainway.launch.program.allocation import allocate
from trainway.launch.program.launcher_conflicts import conflicts_of
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import DATA, SageMakerOptions, render_request
from trainway.launch.slurm import SlurmOptions, render_script
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.problems import SpecError


def requested(directory: Path, hand_off: HandOff, **changes: Any) -> Request:
    program = load_program(write_foreign_job(directory, **changes))
    if hand_off.teams:
        program = dataclasses.replace(program, team=hand_off.teams[0])
    return Request(
        program, "first", hand_off, IMAGE, allocate(program, hand_off, CATALOGUE), "s3://atlas-data/c.tar.gz"
    )


@pytest.mark.parametrize(
    ("changes", "key", "why", "remedy"),
    [
        ({"command": None}, "run", "it says no program", "add `command`"),
        ({"script": "true"}, "run.script", "the section has a `command`, too", "keep one"),
        ({"comand": ["x"]}, "run.comand", "there is no such key here", "did you mean command?"),
        ({"environment": {"PET_NNODES": "2"}}, "run.environment", "the launcher sets PET_NNODES", "leave PET_NNODES"),
        ({"environment": {"HF_TOKEN": "hf_x"}}, "run.environment", "HF_TOKEN looks like a secret", "Secrets Manager"),
        ({"environment": {"A-B": "1"}}, "run.environment", "'A-B' is no name of a variable", "use letters"),
        ({"inputs": {"data": "gs:/x"}}, "run.inputs.data", "'gs:/x' is not a location", "write fsx:/path"),
        ({"metrics": {"loss": "loss=.*"}}, "run.metrics.loss", "it captures 0 values", "put parentheses"),
        ({"metrics": {"loss": "loss=("}}, "run.metrics.loss", "it is no regular expression", "escape"),
        ({"packages": ["git+https://x"]}, "run.packages.0", "not a package of the index", "write it as in einops"),
        ({"metrics": "trainr"}, "run.metrics", "neither a known program", "write one of trainer"),
        ({"stop": {"grace": True}}, "run.stop.grace", "it is not a whole number", "for example `grace: 4`"),
        ({"stop": {"grace": 0}}, "run.stop.grace", "less than 1", "write 1 or more. Seconds from the signal"),
        ({"stop": {"signal": "SIGKILL"}}, "run.stop.signal", "none of the values", "write 'SIGTERM'"),
    ],
)
def test_a_wrong_section_is_explained_with_its_line(
    changes: dict[str, Any], key: str, why: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as caught:
        load_program(write_foreign_job(tmp_path, **changes))
    [problem] = caught.value.problems
    assert ".".join(map(str, problem.key)) == key and problem.line > 1
    assert why in problem.reason and remedy in problem.remedy


def test_both_forms_of_a_job_file_are_in_the_schema() -> None:
    definitions = job_schema()["$defs"]
    assert {"command", "script", "code", "inputs", "outputs"} <= definitions["RunSection"]["properties"].keys()
    assert "model" in definitions["Job"]["properties"] and len(job_schema()["anyOf"]) == 2


def test_locations_become_paths_and_uris_of_the_target(tmp_path: Path, hand_off: HandOff) -> None:
    asked = requested(
        tmp_path,
        hand_off,
        environment={"HF_HOME": "fsx:/hf", "MODE": "fast"},
        inputs={"data": "s3:/corpus/legal", "more": "/local"},
        outputs="fsx:/outputs",
    )
    told = asked.environment(asked.on_nodes())
    assert (told["HF_HOME"], told["MODE"]) == ("/fsx/hf", "fast")
    assert (told["TRAINWAY_INPUT_DATA"], told["TRAINWAY_INPUT_MORE"]) == ("s3://atlas-data/corpus/legal", "/local")
    assert told["TRAINWAY_OUTPUT"] == "/fsx/outputs/first"
    assert (told["TRAINWAY_NODES"], told["TRAINWAY_GPUS_PER_NODE"]) == ("1", "8")
    here = render_local(
        load_program(write_foreign_job(tmp_path, outputs="fsx:/outputs")), tmp_path / "run", processes=2, hand_off=None
    )
    assert here.environment["TRAINWAY_OUTPUT"] == str(tmp_path / "run/outputs"), "there is no file system here"


@pytest.mark.parametrize(
    "outputs", [None, "fsx:/runs", "fsx:/runs/", "fsx:/runs/research", "fsx:/outputs", "s3:/models"]
)
@pytest.mark.parametrize("team", [None, "research"])
def test_a_program_can_empty_its_outputs_without_the_files_of_the_launcher(
    outputs: str | None, team: str | None, tmp_path: Path, hand_off: HandOff
) -> None:
    file = write_foreign_job(tmp_path, outputs=outputs)
    file.write_text(file.read_text() + (f"team: {team}\n" if team else ""))
    program = load_program(file)
    asked = Request(program, "first", hand_off, IMAGE, allocate(program, hand_off, CATALOGUE))
    told = asked.environment(asked.on_nodes())
    run, emptied = PurePosixPath(told["TRAINWAY_RUN"]), PurePosixPath(told["TRAINWAY_OUTPUT"])
    assert run != emptied and emptied not in run.parents
    copied = f"{asked.location}/"
    assert not copied.startswith(f"{emptied}/"), "nor the copy of its directory"


def test_the_prefix_of_all_runs_is_no_location_of_outputs(tmp_path: Path) -> None:
    for location in ("s3:/runs", "s3:/runs/"):
        (found,) = conflicts_of(load_program(write_foreign_job(tmp_path, outputs=location)), None)
        assert found.key == ("run", "outputs") and "which the program could delete" in found.why


def test_a_train_job_has_the_starter_and_does_not_retry_what_cannot_start(tmp_path: Path) -> None:
    files, runtime, job = render_documents(
        requested(tmp_path, hand_off_of(platform_named("kueue"))), CATALOGUE, KubernetesOptions()
    )
    command = without_copies(job["spec"]["trainer"]["command"])
    assert command[:2] == ["python3", "/etc/trainway/start_program.py"]
    assert command[-4:] == ["--code=s3://atlas-data/c.tar.gz", "--", "torchrun", "train.py"]
    compile(files["data"]["start_program.py"], "start_program.py", "exec")
    job_set = runtime["spec"]["template"]["spec"]
    rules = job_set["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"]["rules"]
    assert {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [126, 127]}} in rules
    assert job_set["failurePolicy"]["rules"][0]["action"] == "FailJobSet"
    assert {"name": "PET_MAX_RESTARTS", "value": "0"} in job["spec"]["trainer"]["env"]


@pytest.mark.parametrize(
    ("kind", "changes", "why"),
    [
        ("HyperPodPyTorchJob", {"command": ["python", "train.py"]}, "in place of torchrun"),
        ("PyTorchJob", {"stop": {"grace": 600}}, "run.stop.grace is 600 seconds, and a pod is killed 300 seconds"),
    ],
)
def test_what_a_kind_cannot_do_is_refused(kind: Any, changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    platform = "governance" if kind == "HyperPodPyTorchJob" else "kueue"
    asked = requested(tmp_path, hand_off_of(platform_named(platform)), **changes)
    with pytest.raises(UsageError, match=why):
        render_documents(asked, CATALOGUE, KubernetesOptions(kind=kind))


def test_a_training_job_gets_the_starter_by_its_channel(tmp_path: Path, hand_off: HandOff) -> None:
    asked = requested(tmp_path, on_sagemaker(hand_off), inputs={"data": "s3:/corpus/legal"}, outputs="fsx:/outputs")
    for data in DATA:
        rendered = render_request(asked, CATALOGUE, SageMakerOptions(data=data))
        assert problems("sagemaker", "CreateTrainingJob", rendered) == []
        arguments = rendered["AlgorithmSpecification"]["ContainerArguments"]
        assert arguments[-4:] == ["--code=s3://atlas-data/c.tar.gz", "--", "torchrun", "train.py"]
        assert "/opt/ml/input/data/job/start_program.py" in arguments
        job = rendered["InputDataConfig"][0]["DataSource"]["S3DataSource"]
        assert job["S3Uri"] == "s3://atlas-data/runs/first/job/"
        told = rendered["Environment"]
        here = "/opt/ml/input/data/fsx/outputs/first" if data == "fsx" else "/opt/ml/checkpoints/outputs"
        assert told["TRAINWAY_OUTPUT"] == here
        is_channel = data in ("file", "fast-file")
        held = "/opt/ml/input/data/data-0" if is_channel else "s3://atlas-data/corpus/legal"
        assert told["TRAINWAY_INPUT_DATA"] == held
        names = [each["Name"] for each in rendered["AlgorithmSpecification"]["MetricDefinitions"]]
        assert sorted(names) == ["loss", "step"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"stop": {"grace": 111}}, "run.stop.grace is 111 seconds"),
        ({"command": None, "script": "echo a\necho b"}, "arguments of one line"),
        ({"command": ["torchrun", "train.py", "x" * 257]}, "256 characters"),
    ],
)
def test_what_a_training_job_cannot_do_is_refused(
    changes: dict[str, Any], why: str, tmp_path: Path, hand_off: HandOff
) -> None:
    with pytest.raises(UsageError, match=why):
        render_request(requested(tmp_path, on_sagemaker(hand_off), **changes), CATALOGUE)


def test_the_grace_that_nobody_names_is_one_that_every_target_allows(tmp_path: Path, hand_off: HandOff) -> None:
    asked = requested(tmp_path, on_sagemaker(hand_off), stop={})
    assert asked.program.stop.grace_seconds == 90
    assert "--grace=90" in render_request(asked, CATALOGUE)["AlgorithmSpecification"]["ContainerArguments"]
    render_documents(requested(tmp_path, hand_off_of(platform_named("kueue")), stop={}), CATALOGUE, KubernetesOptions())


def test_under_slurm_the_grace_fits_before_the_time_limit(tmp_path: Path, hand_off: HandOff) -> None:
    asked = requested(tmp_path, on_slurm(hand_off), stop={"grace": 900})
    script = render_script(asked, CATALOGUE, SlurmOptions(time_limit_minutes=90))
    assert "#SBATCH --signal=B:USR1@960\n" in script
    assert 'trap "" TERM USR1' not in script, "nothing of the program ignores the signals"
    assert "TORCHELASTIC_SIGNALS_TO_HANDLE" not in asked.environment(asked.on_nodes())


def test_a_step_to_stop_after_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot stop after step 5"):
        load_program(write_foreign_job(tmp_path), until_step=5)


def test_numbers_need_no_quotation_marks_and_booleans_do(tmp_path: Path) -> None:
    program = load_program(write_foreign_job(tmp_path, command=["train", "--lr", 0.1, 3], environment={"N": 1}))
    assert program.command == ("train", "--lr", "0.1", "3") and program.environment == {"N": "1"}
    with pytest.raises(SpecError, match="it is not text"):
        load_program(write_foreign_job(tmp_path, environment={"N": True}))


def test_code_is_found_beside_the_job_file(tmp_path: Path) -> None:
    assert load_program(write_foreign_job(tmp_path)).code == str(tmp_path / "code")
    file = write_foreign_job(tmp_path, command=None, script="echo 'a b'", code=None)
    program = load_program(file)
    assert program.code is None and program.node_command(tmp_path, None)[-2:] == ("--", "echo 'a b'")
    assert yaml.safe_load(program.files["job.yaml"])["name"] == "foreign"
    assert json.dumps(program.metrics)
