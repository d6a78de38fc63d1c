"""A launch on SageMaker, as the command line makes it from a job file and a hand-off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.launch.conftest import write_job
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff, Nodes, TrainingJobs

CATALOGUE = load_catalogue()
IMAGE = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/atlas/training@sha256:{'5e' * 32}"


def on_sagemaker(
    hand_off: HandOff, *, instance_type: str = "p5.48xlarge", subnets: Mapping[str, str] | None = None
) -> HandOff:
    """The hand-off of a platform with training jobs and one node group. `subnets` are those of groups, by name."""
    changes = {
        "training_jobs": TrainingJobs(
            role_arn="arn:aws:iam::123456789012:role/atlas-TrainingJobRole",
            subnet_ids=subnets or {"train": "subnet-0123456789abcdef0"},
            security_group_ids=("sg-0123456789abcdef0", "sg-0123456789abcdef1"),
        ),
        "node_groups": (Nodes(name="train", instance_type=instance_type, count=4, max_count=4),),
    }
    return hand_off.model_copy(update=changes)


def request(directory: Path, hand_off: HandOff, *, run: str = "small-1", **job: Any) -> Request:
    """A run of the small job, with some keys of its file changed, as a training job."""
    file = write_job(directory, **{"batch": {"global": 16, "micro": 1}, **job})
    program = load_program(file)
    return Request(program, run, hand_off, IMAGE, allocate(program, hand_off, CATALOGUE))
