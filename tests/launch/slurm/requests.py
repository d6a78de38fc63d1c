"""A launch on a Slurm cluster, as the command line makes it from a job file and a hand-off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.launch.conftest import write_job
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff, Nodes

CATALOGUE = load_catalogue()
IMAGE = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/atlas/training@sha256:{'5e' * 32}"


def on_slurm(hand_off: HandOff, *, instance_type: str = "m7i.8xlarge", mount: str = "/fsx") -> HandOff:
    """The hand-off of a Slurm cluster with one node group."""
    cluster = hand_off.cluster.model_copy(
        update={"arn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl"}
    )
    changes = {
        "orchestrator": "hyperpod-slurm",
        "cluster": cluster,
        "file_system": hand_off.mounted.model_copy(update={"mount_path": mount}),
        "node_groups": (Nodes(name="train", instance_type=instance_type, count=4, max_count=4),),
    }
    return hand_off.model_copy(update=changes)


def request(directory: Path, hand_off: HandOff, *, run: str = "small-1", **job: Any) -> Request:
    """A run of the small job, with some keys of its file changed, on a Slurm cluster."""
    file = write_job(directory, **job)
    program = load_program(file)
    return Request(program, run, hand_off, IMAGE, allocate(program, hand_off, CATALOGUE))
