"""A hand-off as a deploy writes it, and a job that is ready to run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainway.launch.job_file.programs import load_program
from trainway.launch.program.program import Program
from trainway.spec import handoff

BUCKET = "atlas-data"


@pytest.fixture
def hand_off() -> handoff.HandOff:
    return make_hand_off()


@pytest.fixture
def empty_account() -> Iterator[None]:
    """Let moto answer the AWS calls of this process, for an account without resources."""
    from moto import mock_aws

    with mock_aws():
        yield


def make_hand_off() -> handoff.HandOff:
    """Return the hand-off of a platform with one node group and one team."""
    return handoff.HandOff(
        platform="atlas",
        orchestrator="eks",
        region="us-west-2",
        bucket=BUCKET,
        file_system=handoff.FileSystem(
            file_system_id="fs-0123456789abcdef0",
            dns_name="fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
            mount_name="abcdefgh",
            mount_path="/fsx",
            associations=(
                handoff.Association(path="/corpus", s3=f"s3://{BUCKET}/corpus"),
                handoff.Association(path="/import/web", s3="s3://web"),
            ),
        ),
        image_uri="123456789012.dkr.ecr.us-west-2.amazonaws.com/atlas/training:0123456789abcdef",
        cluster=handoff.Cluster(name="atlas", arn="arn:aws:eks:us-west-2:123456789012:cluster/atlas", namespaces=()),
        node_groups=(handoff.Nodes(name="train", instance_type="p5.48xlarge", count=4, max_count=16),),
        teams=("research",),
    )


def write_job(directory: Path, **changes: object) -> Path:
    """A small job file with some keys changed."""
    job = {
        "name": "small",
        "model": "tiny",
        "data": {"train": "fsx:/corpus/small", "sequence_length": 64},
        "precision": "fp32",
        "batch": {"global": 8, "micro": 2},
        "steps": 12,
        "checkpoint": {"every": 4, "keep": 2},
        **changes,
    }
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return file


def load_job(directory: Path, **changes: object) -> Program:
    """The same as a program."""
    return load_program(write_job(directory, **changes))
