"""A platform whose jobs keep everything in the bucket has nothing of a file system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.hand_offs import hand_off_in
from tests.synthesis import ROOT, Template, assembly_in, resources, templates_of
from trainway.manifests import cluster_manifests
from trainway.spec.capacity.quotas import quota_needs
from trainway.spec.cost.price import price_lines
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.prices import listed_price
from trainway.spec.kubernetes.addons import FSX_DRIVER, addon_names
from trainway.spec.kubernetes.kubernetes_steps import PublishedVersions, upgrade_plan
from trainway.spec.loader import load_platform

WITHOUT = ROOT / "examples" / "eks-s3.yaml"
# A platform of the same orchestrator that has a file system, in which each test finds what the other lacks.
WITH = ROOT / "examples" / "eks-scratch.yaml"
BOTH = pytest.mark.parametrize(("file", "has"), [(WITHOUT, False), (WITH, True)], ids=["without", "with"])


def _kinds(made: Mapping[str, Template], kind: str) -> list[str]:
    return [name for template in made.values() for name in resources(template, kind)]


@BOTH
def test_no_file_system_and_no_port_of_lustre(file: Path, has: bool) -> None:
    made = templates_of(file)
    assert bool(_kinds(made, "AWS::FSx::FileSystem")) is has
    assert bool(_kinds(made, "AWS::FSx::DataRepositoryAssociation")) is has
    rules = [
        each.get("FromPort")
        for template in made.values()
        for each in resources(template, "AWS::EC2::SecurityGroupIngress").values()
    ]
    assert (988 in rules) is has


@BOTH
def test_no_driver_in_the_cluster_and_none_in_an_upgrade(file: Path, has: bool) -> None:
    platform, made = load_platform(file), templates_of(file)
    addons = resources(made["control-plane"], "AWS::EKS::Addon") | resources(made["cluster"], "AWS::EKS::Addon")
    names = {each["AddonName"] for each in addons.values()}
    assert (FSX_DRIVER in names) is has
    assert names == set(addon_names(platform))
    published = PublishedVersions({}, {}, dict.fromkeys((FSX_DRIVER, "coredns"), "v2"))
    plan = upgrade_plan(platform, load_catalogue(), published, datetime(2026, 11, 27, tzinfo=UTC))
    pins = {pin.name for pin in plan.addons}
    assert (FSX_DRIVER in pins) is has and "coredns" in pins


@BOTH
def test_no_alarm_and_no_panel(file: Path, has: bool) -> None:
    made = templates_of(file)["observability"]
    assert bool([name for name in resources(made, "AWS::CloudWatch::Alarm") if "Lustre" in name]) is has
    (dashboard,) = resources(made, "AWS::CloudWatch::Dashboard").values()
    assert ("Lustre" in json.dumps(dashboard)) is has


@BOTH
def test_no_volume_and_no_container_that_runs_as_root(file: Path, has: bool) -> None:
    manifests = list(cluster_manifests(load_platform(file), load_catalogue()).values())
    kinds = {each.get("kind") for each in manifests}
    assert ("PersistentVolumeClaim" in kinds) is has
    (runtime,) = [each for each in manifests if each.get("kind") == "ClusterTrainingRuntime"]
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    assert ("initContainers" in pod) is has
    assert any("emptyDir" in each and each["name"] == "node-disk" for each in pod["volumes"]) is not has


@BOTH
def test_no_price_and_no_quota(file: Path, has: bool) -> None:
    platform, catalogue = load_platform(file), load_catalogue()
    assert any("Lustre" in line.what for line in price_lines(platform, catalogue, listed_price)) is has
    assert any(need.service == "fsx" for need in quota_needs(platform, catalogue)) is has


@BOTH
def test_the_hand_off_says_so(file: Path, has: bool) -> None:
    hand_off = hand_off_in(assembly_in(file))
    assert (hand_off.file_system is not None) is has
    assert hand_off.mount_path == ("/fsx" if has else "/mnt/node")
