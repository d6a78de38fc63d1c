"""The emulated AWS publishes what each platform with Kubernetes needs, so that preflight finds it as on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from emulator import EVERYWHERE, Emulator, running
from tests.people import ADMIN
from trainway.preflight.aws import AwsQuestions
from trainway.preflight.check import Inquiry
from trainway.preflight.checks.addons import addons
from trainway.preflight.checks.kubernetes_version import kubernetes_version
from trainway.preflight.checks.machine_images import machine_images
from trainway.preflight.finding import FindingLevel
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.kubernetes_versions import kubernetes_versions
from trainway.spec.kubernetes.publications import publications
from trainway.spec.platform import Platform

CATALOGUE = load_catalogue()
NOW = datetime(2026, 12, 1, tzinfo=UTC)
REGIONS = {"us-west-2": ["usw2-az1", "usw2-az2"], "us-east-2": ["use2-az1", "use2-az2"]}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started, pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in started.environment().items():
            patch.setenv(name, value)
        started.publish(**publications(CATALOGUE, NOW.date()), region=EVERYWHERE)
        yield started


def found(region: str, version: str, orchestrator: str, *types: str) -> list[str]:
    """Return the errors about what AWS publishes, of a platform with a node group of each type."""
    on_hyperpod = {"hyperpod": {"training_operator": True, "observability": True, "task_governance": True}}
    platform = Platform.model_validate(
        {
            "name": "atlas",
            "region": region,
            "zones": REGIONS[region],
            "orchestrator": orchestrator,
            "node_groups": [
                {"name": f"nodes{number}", "instance_type": name, "count": 1} for number, name in enumerate(types)
            ],
            "kubernetes": {"version": version, "admins": [ADMIN]},
        }
        | (on_hyperpod if orchestrator == "hyperpod-eks" else {})
    )
    inquiry = Inquiry(platform, CATALOGUE, AwsQuestions(region), NOW)
    checks: Any = (kubernetes_version, addons, machine_images)
    return [each.what for check in checks for each in check(inquiry) if each.level is FindingLevel.ERROR]


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks"])
def test_nothing_is_missing_of_a_version_that_eks_supports(region: str, orchestrator: str) -> None:
    types = ["p5.48xlarge", "trn2.48xlarge", "m7g.4xlarge"] if orchestrator == "eks" else ["p5.48xlarge"]
    versions = kubernetes_versions().of(hyperpod=orchestrator == "hyperpod-eks")
    for version in versions[versions.index("1.32") :]:
        assert found(region, version, orchestrator, *types) == []


@pytest.mark.usefixtures("emulator")
def test_a_version_without_support_is_not_published() -> None:
    assert "EKS does not offer Kubernetes 1.31 in us-west-2" in found("us-west-2", "1.31", "eks", "p5.48xlarge")


def test_a_region_with_its_own_publications_has_no_others(emulator: Emulator) -> None:
    try:
        emulator.publish(region="us-east-2", **(publications(CATALOGUE, NOW.date()) | {"addons": []}))
        assert "EKS offers no add-on vpc-cni for Kubernetes 1.34 in us-east-2" in found(
            "us-east-2", "1.34", "eks", "p5.48xlarge"
        )
    finally:
        emulator.publish(region="us-east-2", **publications(CATALOGUE, NOW.date()))
