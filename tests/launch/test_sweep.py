"""A sweep is a job for each point of a grid, each with a name, a file and checkpoints of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.launch.conftest import write_job
from training.config import Job
from trainway.launch.sweep import MOST_JOBS, sweep
from trainway.spec.errors import UsageError


@pytest.fixture
def text(tmp_path: Path) -> str:
    return write_job(tmp_path).read_text()


def test_every_combination_is_a_job(text: str) -> None:
    points = sweep(text, ["optimizer.learning_rate=1e-4, 3e-4,1.0e-3", "seed=0,1", "optimizer.betas=[0.9, 0.95]"])
    assert [(point.job.optimizer.learning_rate, point.job.seed) for point in points] == [
        (rate, seed) for rate in (1e-4, 3e-4, 1e-3) for seed in (0, 1)
    ]
    assert [point.job.name for point in points] == [f"small-{number}" for number in range(6)]
    assert points[3].changes == {"optimizer.learning_rate": 3e-4, "seed": 1, "optimizer.betas": [0.9, 0.95]}


def test_the_file_of_a_point_says_what_the_point_is(text: str) -> None:
    for point in sweep(text, ["steps=12,24"]):
        assert Job.model_validate(yaml.safe_load(point.text)) == point.job


def test_no_two_jobs_share_checkpoints(tmp_path: Path, text: str) -> None:
    named = write_job(tmp_path, checkpoint={"location": "fsx:/checkpoints/mine"}).read_text()
    for each in (text, named):
        assert len({point.job.checkpoint_location for point in sweep(each, ["seed=0,1,2"])}) == 3


def test_names_sort_as_they_were_made(text: str) -> None:
    names = [point.job.name for point in sweep(text, [f"seed={','.join(map(str, range(12)))}"])]
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
        ("model.size=8b", "model of the job file is no section"),
        (f"seed={','.join(map(str, range(MOST_JOBS + 1)))}", f"more than {MOST_JOBS}"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_as_a_whole(axis: str, why: str, text: str) -> None:
    with pytest.raises(UsageError, match=why):
        sweep(text, ["steps=12,24", axis])
