"""Nodes install what somebody has compared with its publisher's, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from trainway.spec import node_packages
from trainway.spec.loader import load_platform
from trainway.spec.node_packages import PACKAGES_FILE, unchecked_files

PAGE = Path(__file__).parents[2] / "docs" / "slurm-nodes.md"
PLATFORM = """\
name: atlas
region: us-west-2
zones: [usw2-az2]
orchestrator: hyperpod-slurm
node_groups:
  - {name: train, instance_type: p5.48xlarge, count: 1}
"""


def test_a_file_is_accounted_for_by_its_checksum_or_by_being_there(tmp_path: Path) -> None:
    document = yaml.safe_load(PACKAGES_FILE.read_text())
    (first, second) = document["packages"][0]["files"]
    own, listed = tmp_path / "packages", tmp_path / "node_packages.yaml"
    own.mkdir()
    for each, checksum in ((first, "a" * 64), (second, None)):
        each["sha256"] = checksum
    listed.write_text(yaml.safe_dump(document))
    assert unchecked_files(listed, own) == (second["url"],)
    (own / second["url"].rpartition("/")[2]).touch()
    assert unchecked_files(listed, own) == ()


def test_a_platform_may_ask_for_what_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in unchecked_files(own=tmp_path):
        (tmp_path / url.rpartition("/")[2]).touch()
    monkeypatch.setattr(node_packages.unchecked_files, "__defaults__", (PACKAGES_FILE, tmp_path))
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM + shown)
    assert load_platform(file).slurm_or_default.containers
