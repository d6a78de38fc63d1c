"""Containers are on for Slurm's nodes unless the platform file says otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.synthesis import EXAMPLES
from trainway.spec.loader import load_platform
from trainway.spec.slurm.node_packages import node_containers

PAGE = Path(__file__).parents[2] / "docs" / "slurm-nodes.md"
PLATFORM = """\
name: atlas
region: us-west-2
zones: [usw2-az2]
orchestrator: hyperpod-slurm
node_groups:
  - {name: train, instance_type: p5.48xlarge, count: 1}
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [("", "wanted"), ("slurm: {containers: true}", "required"), ("slurm: {containers: false}", "none")],
)
def test_nodes_get_containers_as_the_file_says(asked: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM + asked)
    assert node_containers(load_platform(file)) == told


def test_every_slurm_example_has_containers() -> None:
    told = [node_containers(load_platform(file)) for file in EXAMPLES if "slurm" in file.stem]
    assert told and set(told) == {"wanted"}


def test_the_pages_example_is_a_valid_platform(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM + shown)
    assert node_containers(load_platform(file)) == "required"
