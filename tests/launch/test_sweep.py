"""A sweep is a job for each point of a grid, each with a name, a file and checkpoints of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.launch.conftest import write_job
from tests.launch.foreign import write_foreign_job
from training.config import Job
from trainway.launch.job_file.sweep import MOST_JOBS, Point, sweep
from trainway.spec.errors import UsageError


def job_of(point: Point) -> Job:
    """Return the job that the job file of a point describes."""
    return Job.model_validate(yaml.safe_load(point.program.text))


@pytest.fixture
def text(tmp_path: Path) -> str:
    return write_job(tmp_path).read_text()


def test_every_combination_is_a_job(text: str) -> None:
    points = sweep(text, ["optimizer.learning_rate=1e-4, 3e-4,1.0e-3", "seed=0,1", "optimizer.betas=[0.9, 0.95]"])
    assert [(job.optimizer.learning_rate, job.seed) for job in map(job_of, points)] == [
        (rate, seed) for rate in (1e-4, 3e-4, 1e-3) for seed in (0, 1)
    ]
    assert [point.program.name for point in points] == [f"small-{number}" for number in range(6)]
    assert points[3].changes == {"optimizer.learning_rate": 3e-4, "seed": 1, "optimizer.betas": [0.9, 0.95]}


def test_the_file_of_a_point_says_what_the_point_is(text: str) -> None:
    for point in sweep(text, ["steps=12,24"]):
        changed = {**point.changes, "name": point.program.name}
        assert yaml.safe_load(point.program.text) == {**yaml.safe_load(text), **changed}
        assert job_of(point).steps == point.changes["steps"]


def test_no_two_jobs_share_checkpoints(tmp_path: Path, text: str) -> None:
    named = write_job(tmp_path, checkpoint={"location": "fsx:/checkpoints/mine"}).read_text()
    for each in (text, named):
        assert len({job_of(point).checkpoint_location for point in sweep(each, ["seed=0,1,2"])}) == 3


def test_a_sweep_changes_what_any_program_is_told(tmp_path: Path) -> None:
    text = write_foreign_job(tmp_path).read_text()
    points = sweep(text, ["run.environment.LR=1e-4,3e-4"], directory=tmp_path)
    assert [point.program.environment["LR"] for point in points] == ["0.0001", "0.0003"]
    assert [point.program.name for point in points] == ["foreign-0", "foreign-1"]
    assert {point.program.code for point in points} == {str(tmp_path / "code")}


def test_names_sort_as_they_were_made(text: str) -> None:
    names = [point.program.name for point in sweep(text, [f"seed={','.join(map(str, range(12)))}"])]
    assert names == sorted(names) and names[2] == "small-02"


@pytest.mark.parametrize(
    ("axis", "why"),
    [
        ("seed", "not a key, `=` and values"),
        ("seed=", "not a key, `=` and values"),
        ("seed=[1", "not a key, `=` and values"),
        ("name=a,b", "name of its own"),
        ("colour=blue", "colour: Extra inputs"),
        ("seed=1,-1", "seed: Input should be greater"),
        ("model.size=8b", "model of the job file is not a section"),
        (f"seed={','.join(map(str, range(MOST_JOBS + 1)))}", f"more than {MOST_JOBS}"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_as_a_whole(axis: str, why: str, text: str) -> None:
    with pytest.raises(UsageError, match=why):
        sweep(text, ["steps=12,24", axis])
