"""A platform has a Kubernetes version that AWS supports, and its default is one that every part supports."""

from __future__ import annotations

import copy
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.people import with_people
from tests.synthesis import EXAMPLES, ROOT, resources, templates_of
from trainway.cli import app
from trainway.spec.errors import UsageError
from trainway.spec.facts.kubernetes_versions import kubernetes_versions, numbers
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError
from trainway.spec.refresh import version_differences
from trainway.spec.sections.kubernetes import Kubernetes

FACTS = kubernetes_versions()
READ = date(2026, 11, 22)
DAY = timedelta(days=1)


def platform_file(directory: Path, orchestrator: str, version: str) -> Path:
    platform = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": orchestrator,
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
        "kubernetes": {"version": version},
    }
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(platform)))
    return file


def problems(file: Path, today: date | None = None) -> str:
    """Return what is wrong with a platform file, or an empty string."""
    try:
        load_platform(file, today=today)
    except (SpecError, UsageError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("version", ["1.20", "1.29", "1.30", "1.37", "1.99"])
@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks"])
def test_a_version_that_eks_does_not_have_is_refused(orchestrator: str, version: str, tmp_path: Path) -> None:
    said = problems(platform_file(tmp_path, orchestrator, version))
    assert f"does not support Kubernetes {version}" in said
    assert f"write 1.35{' or 1.36' if orchestrator == 'eks' else ''}, in quotes" in said


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks"])
def test_the_remedy_for_an_unknown_version_names_none_without_standard_support(
    orchestrator: str, tmp_path: Path
) -> None:
    said = problems(platform_file(tmp_path, orchestrator, "1.99"))
    (remedy,) = re.findall(r"write ([0-9. or]+), in quotes", said)
    for version in remedy.split(" or "):
        assert not problems(platform_file(tmp_path, orchestrator, version), READ + 90 * DAY)


def test_hyperpod_supports_fewer_versions_than_eks(tmp_path: Path) -> None:
    assert not problems(platform_file(tmp_path, "eks", "1.36"))
    assert "HyperPod on EKS does not support" in problems(platform_file(tmp_path, "hyperpod-eks", "1.36"))


def test_a_version_is_refused_from_the_day_on_which_its_standard_support_ends(tmp_path: Path) -> None:
    for version, support in FACTS.eks.versions.items():
        file = platform_file(tmp_path, "eks", version)
        assert not problems(file, support.standard_until - DAY)
        said = problems(file, support.standard_until)
        assert f"standard support of Kubernetes {version} ended on {support.standard_until}" in said
        assert "end of its extended support" in problems(file, support.extended_until)


def test_the_remedy_names_the_versions_that_have_standard_support(tmp_path: Path) -> None:
    said = problems(platform_file(tmp_path, "hyperpod-eks", "1.33"), READ)
    assert "write one of 1.34, 1.35, in quotes" in said


def test_no_version_left_asks_for_a_newer_release(tmp_path: Path) -> None:
    assert "use a newer release of Trainway" in problems(platform_file(tmp_path, "eks", "1.35"), date(2040, 1, 1))


def test_the_default_is_the_newest_version_that_every_part_supports() -> None:
    assert Kubernetes().version == FACTS.default == "1.35"
    assert FACTS.default in FACTS.hyperpod.versions
    newer = [version for version in FACTS.eks.versions if numbers(version) > numbers(FACTS.default)]
    limits = [*FACTS.parts.values()]
    assert all(numbers(part.oldest) <= numbers(FACTS.default) <= numbers(part.newest) for part in limits)
    for version in newer:
        assert version not in FACTS.hyperpod.versions or any(numbers(version) > numbers(p.newest) for p in limits)


def test_the_default_has_standard_support_for_months() -> None:
    assert FACTS.eks.versions[FACTS.default].standard_until - READ > timedelta(days=90)


def test_helms_entry_is_of_the_pinned_helm() -> None:
    helm = yaml.safe_load((ROOT / "delivery" / "mirror.yaml").read_text(encoding="utf-8"))["tools"]["helm"]["version"]
    assert f"helm {helm.rpartition('.')[0]}" in FACTS.parts


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_valid_on_the_day_the_table_was_read(example: Path) -> None:
    assert not problems(example, READ)


def test_check_is_told_the_day() -> None:
    example = str(ROOT / "examples" / "eks-p5.yaml")
    ran = CliRunner().invoke(app, ["check", example, "--on", "2026-11-22"])
    assert ran.exit_code == 0, ran.output
    ran = CliRunner().invoke(app, ["check", example, "--on", "2027-03-27"])
    assert isinstance(ran.exception, SpecError)
    assert "standard support of Kubernetes 1.35 ended on 2027-03-27" in str(ran.exception)


def test_a_cluster_does_not_enter_extended_support() -> None:
    stacks = templates_of(ROOT / "examples" / "eks-p5.yaml")
    (cluster,) = resources(stacks["control-plane"], "AWS::EKS::Cluster").values()
    assert cluster.get("UpgradePolicy") == {"SupportType": "STANDARD"}
    assert cluster["Version"] == FACTS.default


def answers() -> list[dict[str, Any]]:
    """Return what DescribeClusterVersions would answer if the table is right; EKS answers with the time of day."""
    return [
        {
            "clusterVersion": version,
            "endOfStandardSupportDate": datetime.combine(support.standard_until, datetime.min.time(), UTC),
            "endOfExtendedSupportDate": datetime.combine(support.extended_until, datetime.min.time(), UTC),
        }
        for version, support in FACTS.eks.versions.items()
    ]


def test_refresh_finds_what_eks_answers_differently() -> None:
    assert not version_differences(FACTS, answers())
    changed = copy.deepcopy(answers())
    changed[-1]["endOfStandardSupportDate"] += DAY
    gone = changed.pop(0)
    changed.append(gone | {"clusterVersion": "1.37"})
    said = "\n".join(str(each) for each in version_differences(FACTS, changed))
    assert "Kubernetes 1.31: standard_until: ours 2025-11-26, AWS's none" in said
    assert "Kubernetes 1.36: standard_until: ours 2027-08-02, AWS's 2027-08-03" in said
    assert "Kubernetes 1.37: extended_until: ours none, AWS's 2026-11-26" in said
