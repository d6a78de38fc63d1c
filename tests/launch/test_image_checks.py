"""A job is refused in an image without the parts that it asks for: GIN of NCCL, and HyperPod's elastic agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.people import with_people
from trainway.cli import app


def checked(tmp_path: Path, job: dict[str, Any], **sections: Any) -> tuple[int, str]:
    """Return the status and the output of `trainway check JOB --platform FILE`."""
    document = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 2}],
    }
    platform, file = tmp_path / "platform.yaml", tmp_path / "job.yaml"
    platform.write_text(yaml.safe_dump(with_people(document | sections), sort_keys=False), encoding="utf-8")
    file.write_text(yaml.safe_dump(job), encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(file), "--platform", str(platform)])
    return done.exit_code, done.output + str(done.exception or "")


def program(environment: dict[str, str]) -> dict[str, Any]:
    return {"name": "gin", "nodes": 2, "run": {"command": ["true"], "environment": environment}}


@pytest.mark.parametrize(
    ("image", "gin_type", "lacks"),
    [
        ({}, "3", "aws-ofi-nccl 1.20.0 is not documented for GIN"),
        ({"versions": "pytorch-2.15"}, "3", "NCCL 2.31.2 or newer, and the image has 2.30.7"),
        ({"versions": "edge"}, "3", None),
        ({"versions": "edge"}, "5", None),
        ({"versions": "current"}, "0", None),
    ],
)
def test_a_job_that_asks_for_gin_needs_an_image_with_all_of_it(
    tmp_path: Path, image: dict[str, str], gin_type: str, lacks: str | None
) -> None:
    status, output = checked(tmp_path, program({"NCCL_GIN_TYPE": gin_type}), image=image)
    assert (status != 0) == bool(lacks), output
    if lacks:
        assert lacks in output and "versions: edge" in output


@pytest.mark.parametrize(("image", "is_refused"), [("image", True), ("operator", False)])
def test_a_job_of_hyperpods_operator_needs_an_image_with_its_agent(
    tmp_path: Path, image: str, is_refused: bool
) -> None:
    job = program({}) | {"kubernetes": {"kind": "HyperPodPyTorchJob"}}
    job["run"] |= {"image": image, "command": ["torchrun", "train.py"]}
    status, output = checked(
        tmp_path,
        job,
        orchestrator="hyperpod-eks",
        hyperpod={"training_operator": True},
        image={"versions": "pytorch-2.15"},
        images={"operator": {"versions": "pytorch-2.11"}},
    )
    assert (status != 0) == is_refused, output
    if is_refused:
        assert "does not support PyTorch 2.15.0" in output
