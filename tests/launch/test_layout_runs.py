"""Layouts run on this machine for a few steps, and as job files anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from training.data.corpus import python_standard_library
from training.prepare import prepare
from trainway.launch.tuning.layout_runs import measured_seconds, write_job_files
from trainway.spec.errors import UsageError


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a job file of a tiny model, whose checkpoints go beside it."""
    directory = tmp_path_factory.mktemp("layouts")
    prepare(python_standard_library(limit_bytes=200_000), str(directory / "corpus"), vocabulary=384)
    document = {
        "name": "layouts",
        "model": "tiny",
        "data": {"train": str(directory / "corpus"), "sequence_length": 64},
        "precision": "fp32",
        "batch": {"global": 8, "micro": 1},
        "steps": 5,
        "checkpoint": {"every": 1, "location": str(directory / "checkpoints")},
    }
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def layout(**parallel: int) -> dict[str, dict[str, int]]:
    return {"parallel": parallel, "batch": {"micro": 2}}


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_layout_runs_a_few_steps_on_its_ranks_and_leaves_nothing(ranks: int, job: Path, tmp_path: Path) -> None:
    before = sorted(job.parent.iterdir())
    taken = measured_seconds(job, layout(tp=ranks, dp_shard=-1), ranks=ranks, steps=3)
    assert isinstance(taken, float), taken
    assert 0 < taken < 60
    assert sorted(job.parent.iterdir()) == before, "no checkpoint is saved"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_a_layout_that_ends_early_has_the_reason_in_place_of_seconds(job: Path) -> None:
    taken = measured_seconds(job, layout(tp=3, dp_shard=-1), ranks=3, steps=3)
    assert isinstance(taken, str)
    assert taken.startswith("parallel.tp is 3, which does not divide")


def test_each_layout_is_a_job_file_with_its_own_name_and_checkpoints(job: Path, tmp_path: Path) -> None:
    files = write_job_files(job, [layout(tp=2, dp_shard=-1), layout(tp=1, dp_shard=-1)], tmp_path / "new")
    documents = [yaml.safe_load(file.read_text()) for file in files]
    assert [file.name for file in files] == ["layouts-layout-1.yaml", "layouts-layout-2.yaml"]
    assert [each["name"] for each in documents] == ["layouts-layout-1", "layouts-layout-2"]
    assert [each["parallel"]["tp"] for each in documents] == [2, 1]
    assert [each["batch"] for each in documents] == [{"global": 8, "micro": 2}] * 2
    assert len({each["checkpoint"]["location"] for each in documents}) == 2
    with pytest.raises(UsageError, match=r"layouts-layout-1\.yaml was not written"):
        write_job_files(job, [layout(tp=4)], tmp_path / "new")
    assert yaml.safe_load(files[0].read_text()) == documents[0]
