"""The driver of the nodes supports the CUDA of the training image, or the platform file is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.people import with_people
from trainway.cli import app
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.drivers import branch_of, driver_facts
from trainway.spec.facts.kubernetes_versions import kubernetes_versions
from trainway.spec.facts.versions import versions_facts
from trainway.spec.image.drivers import eks_driver, hyperpod_driver, old_drivers
from trainway.spec.loader import load_platform
from trainway.spec.lock import Lock, lock_file, lock_text
from trainway.spec.problems import SpecError

FACTS = driver_facts()
BASE = f"111122223333.dkr.ecr.us-west-2.amazonaws.com/bases:1@sha256:{64 * '0'}"
# Releases with the drivers 560, 570 and 580, and one that is newer than the facts.
R560, R570, R580, NEWER = "1.31.4-20250212", "1.33.5-20251007", "1.33.5-20251029", "1.33.9-20990101"


def platform_file(directory: Path, release: str | None = None, **sections: Any) -> Path:
    """Write a platform whose groups of GPUs and CPUs, and system nodes, have a release in the lock."""
    groups = [
        {"name": "data", "instance_type": "m7i.8xlarge", "count": 1},
        {"name": "train", "instance_type": "p5.48xlarge", "count": 1},
    ]
    document = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
        "node_groups": groups,
        "kubernetes": {"version": "1.34"},
    }
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(document | sections), sort_keys=False), encoding="utf-8")
    if release:
        lock = Lock(ami_releases=dict.fromkeys(("data", "train", "system"), release))
        lock_file(file).write_text(lock_text(lock), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("release", "image"),
    [(R560, {}), (R570, {}), (R570, {"base": BASE}), (R570, {"base": BASE, "versions": "pytorch-2.12"})],
)
def test_a_driver_that_is_too_old_is_refused(release: str, image: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_platform(platform_file(tmp_path, release, image=image))
    (problem,) = caught.value.problems
    assert problem.key == ("node_groups", 1, "name"), "the group of CPUs and the system nodes need no driver"
    for part in (release, eks_driver(release, FACTS) or "", "CUDA 13.0", "requires 580 or newer"):
        assert part in problem.reason
    assert "upgrade --group train" in problem.remedy


def test_the_remedy_is_possible(tmp_path: Path) -> None:
    file = platform_file(tmp_path, R560)
    lock = yaml.safe_load(lock_file(file).read_text())
    del lock["ami_releases"]["train"]
    lock_file(file).write_text(yaml.safe_dump(lock), encoding="utf-8")
    assert load_platform(file).lock.ami_releases.keys() == {"data", "system"}


@pytest.mark.parametrize(
    ("release", "sections"),
    [
        (R580, {}),
        (NEWER, {}),
        (None, {}),
        (R560, {"image": {"uri": f"111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:{64 * '0'}"}}),
        (R560, {"image": {"base": BASE, "base_packages": "kept"}}),
        (R560, {"node_groups": [{"name": "train", "instance_type": "m7i.8xlarge", "count": 1}]}),
        (
            R560,
            {
                "node_groups": [
                    {"name": "train", "instance_type": "p5.48xlarge", "count": 1, "image_id": "ami-0123456789abcdef0"}
                ]
            },
        ),
    ],
    ids=["new", "newer than the facts", "no release", "own image", "packages kept", "no GPU", "own AMI"],
)
def test_what_is_new_enough_or_unknown_is_taken(release: str | None, sections: dict[str, Any], tmp_path: Path) -> None:
    file = platform_file(tmp_path, release, **sections)
    done = CliRunner().invoke(app, ["check", str(file), "--on", "2026-11-23"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "NVIDIA driver" not in done.output


@pytest.mark.parametrize(("version", "is_old"), [("1.1.2", True), ("9.9.9", False), (None, False)])
def test_versions_of_hyperpods_image_have_drivers_too(version: str | None, is_old: bool, tmp_path: Path) -> None:
    """Every version that AWS lists supports CUDA 13, so another CUDA is planted."""
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 1, "image_version": version}
    platform = load_platform(platform_file(tmp_path, orchestrator="hyperpod-eks", node_groups=[group]))
    assert not list(old_drivers(platform, load_catalogue(), versions_facts(), FACTS))
    cuda = FACTS.cuda.model_copy(update={"oldest_branches": {"13": 590}})
    planted = FACTS.model_copy(update={"cuda": cuda})
    found = list(old_drivers(platform, load_catalogue(), versions_facts(), planted))
    assert [each.driver for each in found] == (["580.126.09"] if is_old else [])


def test_releases_are_in_order_and_of_the_versions_that_platforms_can_have() -> None:
    assert set(FACTS.eks.versions) == set(kubernetes_versions().of(hyperpod=False))
    for minor, releases in FACTS.eks.versions.items():
        days = [each.since for each in releases]
        assert days == sorted(set(days)) and days[-1] <= FACTS.eks.until
        before = f"{minor}.0-{days[0] - timedelta(days=1):%Y%m%d}"
        assert eks_driver(before, FACTS) is None
        for each in releases:
            assert eks_driver(f"{minor}.0-{each.since:%Y%m%d}", FACTS) == each.driver
    assert eks_driver(NEWER, FACTS) is None and hyperpod_driver("0.9.1", FACTS) is None
    assert branch_of("580.95.05") == 580


def test_every_combination_has_a_known_requirement() -> None:
    """CUDA of a major version without an entry would never be compared."""
    for wheel in versions_facts().pytorch:
        assert wheel.cuda.partition(".")[0] in FACTS.cuda.oldest_branches
