"""What a launch on this machine will run is known before it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.launch.conftest import BUCKET, load_job, write_job
from training import errors
from training.config import Job
from trainway.launch.local import render_local
from trainway.launch.program.locations import local_roots, needs_hand_off
from trainway.launch.program.stopping import STATUSES_FOR_GOOD
from trainway.launch.runs.run_directory import make_run_directory
from trainway.spec.errors import UsageError
from trainway.spec.handoff import Checkpoints, HandOff
from trainway.spec.loader import load
from trainway.spec.problems import SpecError


def test_the_command_says_nothing_of_this_machine(tmp_path: Path, hand_off: HandOff) -> None:
    launch = render_local(load_job(tmp_path), tmp_path / "run", processes=2, hand_off=hand_off)
    assert launch.command == ("python3", "-m", "training.elastic")
    assert launch.environment["PET_NPROC_PER_NODE"] == "2"
    assert launch.environment["TRAINWAY_JOB"] == f"{tmp_path}/run/job.yaml"


def test_locations_of_the_platform_become_prefixes_of_its_bucket(tmp_path: Path, hand_off: HandOff) -> None:
    launch = render_local(load_job(tmp_path), tmp_path / "run", processes=2, hand_off=hand_off)
    assert json.loads(launch.environment["TRAINWAY_LOCATIONS"]) == {"fsx": f"s3://{BUCKET}", "s3": f"s3://{BUCKET}"}


def test_checkpoints_are_laid_out_as_the_platform_says(tmp_path: Path, hand_off: HandOff) -> None:
    layout = {"prefixes": 50, "part_bytes": 67108864, "gbps_each": 10}
    told = hand_off.model_copy(update={"checkpoints": Checkpoints.model_validate(layout)})
    launch = render_local(load_job(tmp_path), tmp_path / "run", processes=2, hand_off=told)
    assert json.loads(launch.environment["TRAINWAY_CHECKPOINTS"]) == layout


def test_no_secret_is_written_down(tmp_path: Path, hand_off: HandOff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    assert "very-secret" not in str(render_local(load_job(tmp_path), tmp_path, processes=2, hand_off=hand_off))


@pytest.mark.parametrize("location", ["fsx:/scratch/small", "fsx:/corpusmall/x", "fsx:/import/web/x"])
def test_a_directory_that_only_the_file_system_has_is_refused(location: str, tmp_path: Path, hand_off: HandOff) -> None:
    job = load_job(tmp_path, data={"train": location, "sequence_length": 64})
    with pytest.raises(UsageError, match="cannot be reached from this machine") as caught:
        local_roots(job, hand_off)
    assert "fsx:/corpus" in str(caught.value)


@pytest.mark.parametrize(
    ("train", "checkpoints", "needed"),
    [
        ("/data/small", "/data/checkpoints", False),
        ("s3://bucket/small", "s3://bucket/checkpoints", False),
        ("fsx:/corpus/small", "/data/checkpoints", True),
        ("/data/small", "s3:/checkpoints/small", True),
    ],
)
def test_a_job_with_its_own_locations_needs_no_platform(
    train: str, checkpoints: str, needed: bool, tmp_path: Path
) -> None:
    job = load_job(tmp_path, data={"train": train}, checkpoint={"location": checkpoints})
    assert needs_hand_off(job) is needed
    starting = load_job(
        tmp_path, data={"train": train}, checkpoint={"location": checkpoints, "start_from": "fsx:/models/x"}
    )
    assert needs_hand_off(starting)


def test_a_number_of_processes_that_does_not_divide_the_batch_is_explained(tmp_path: Path, hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match=r"8.*3 data-parallel ranks"):
        render_local(load_job(tmp_path), tmp_path, processes=3, hand_off=hand_off)


def test_a_team_that_the_platform_does_not_have_is_explained(tmp_path: Path, hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match="research"):
        render_local(load_job(tmp_path, team="marketing"), tmp_path, processes=2, hand_off=hand_off)


def test_a_wrong_job_file_is_explained_with_its_lines(tmp_path: Path) -> None:
    file = write_job(tmp_path, steps=0, colour="blue", batch={"global": 7, "micro": 2})
    with pytest.raises(SpecError) as caught:
        load(file, Job)
    keys = {problem.key[0] for problem in caught.value.problems}
    assert keys == {"steps", "colour", "batch"}
    assert all(problem.line > 1 for problem in caught.value.problems if problem.key != ("batch",))


def test_a_directory_with_other_things_in_it_is_not_taken_for_a_run(tmp_path: Path) -> None:
    job_file = write_job(tmp_path)
    run = tmp_path / "photos"
    run.mkdir()
    (run / "cat.jpg").write_text("")
    with pytest.raises(UsageError, match="not a run"):
        make_run_directory(job_file.read_text(), run)
    assert [path.name for path in run.iterdir()] == ["cat.jpg"]


def test_what_ends_the_ranks_for_good_ends_the_run() -> None:
    assert set(STATUSES_FOR_GOOD) == errors.STATUSES_FOR_GOOD
