"""The job files that people copy are good ones, and fit the nodes they are written for."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.config import Job
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load

JOBS = sorted((Path(__file__).parents[2] / "examples" / "jobs").glob("*.yaml"))


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.stem)
def test_job_fits_p5_nodes(file: Path) -> None:
    job = load(file, Job)
    accelerator = load_catalogue()["p5.48xlarge"].accelerator
    assert accelerator is not None
    layout = job.layout(job.nodes * accelerator.count)
    assert layout.pp * layout.dp * layout.cp * layout.tp == job.nodes * accelerator.count
    assert layout.accumulation_steps >= 1
