"""A new instance type is one entry of the catalogue: it is checked, planned and synthesized without another change."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.fictitious import NAME, catalogue_with
from tests.people import with_people
from tests.synthesis import Template, make_app, resources, templates
from trainway.manifests import cluster_manifests
from trainway.manifests.chart_values import chart_values
from trainway.plan import plan_document
from trainway.spec import loader
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.loader import load_platform
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.problems import SpecError

LAYOUT = [(0, 0, "interface"), (0, 1, "efa-only"), *((card, 0, "efa-only") for card in range(1, 64))]


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return catalogue_with(tmp_path / "catalogue")


def platform_file(directory: Path, orchestrator: str = "eks") -> Path:
    group = {"name": "train", "instance_type": NAME, "count": 2, "max_count": 4}
    file = directory / "platform.yaml"
    platform = {"name": "ninth", "region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"]}
    file.write_text(yaml.safe_dump(with_people({**platform, "orchestrator": orchestrator, "node_groups": [group]})))
    return file


def synthesized(orchestrator: str, catalogue: Catalogue, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Template:
    """The cluster's template, where the app finds this catalogue in place of the shipped one."""
    from stacks import platform as stacks_of_platform

    for module in (stacks_of_platform, loader):
        monkeypatch.setattr(module, "load_catalogue", lambda: catalogue)
    return templates(make_app(platform_file(directory, orchestrator), directory / "out"))["cluster"]


def test_the_shipped_catalogue_does_not_have_it(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the instance catalogue has no such type"):
        load_platform(platform_file(tmp_path))


def test_it_is_checked(catalogue: Catalogue, tmp_path: Path) -> None:
    platform = load_platform(platform_file(tmp_path), catalogue)
    assert platform.node_groups[0].instance_type == NAME


def test_what_its_entry_says_is_what_is_checked(tmp_path: Path) -> None:
    blocks_only = catalogue_with(tmp_path / "catalogue", capacity_kinds=["capacity-block"], quota_codes={})
    with pytest.raises(SpecError, match=r"p9\.96xlarge is not sold as on-demand"):
        load_platform(platform_file(tmp_path), blocks_only)
    elsewhere = catalogue_with(tmp_path / "other", hyperpod=False)
    with pytest.raises(SpecError, match="HyperPod does not offer this type"):
        load_platform(platform_file(tmp_path, "hyperpod-eks"), elsewhere)


def test_its_addresses_are_planned(catalogue: Catalogue, tmp_path: Path) -> None:
    def needed(of: Catalogue) -> int:
        plan = plan_addresses(load_platform(platform_file(tmp_path, "hyperpod-eks"), of), of)
        assert all(subnet.needed <= subnet.usable for subnet in plan.subnets)
        return sum(subnet.needed for subnet in plan.subnets)

    larger = catalogue_with(tmp_path / "larger", ipv4_addresses_per_interface=150)
    assert needed(larger) >= needed(catalogue) + 4 * 100


def test_its_plan_has_its_ranks_devices_pods_and_quotas(catalogue: Catalogue, tmp_path: Path) -> None:
    document = plan_document(load_platform(platform_file(tmp_path), catalogue), catalogue)
    (train,) = document["node_groups"]
    assert train["ranks_per_node"] == 16
    assert train["devices_per_node"] == {"nvidia.com/gpu": 16, "vpc.amazonaws.com/efa": 64}
    assert train["pods_per_node"] == 32
    assert {
        "service": "ec2",
        "name": "Running On-Demand P instances",
        "code": "L-417A185B",
        "needed": 4 * 384,
    } in document["quotas"]


def test_its_nodes_run_the_device_plugins(catalogue: Catalogue, tmp_path: Path) -> None:
    platform = load_platform(platform_file(tmp_path), catalogue)
    assert "train" in str(chart_values(platform, catalogue)["nvidia-device-plugin"])
    assert "train" in str(chart_values(platform, catalogue)["aws-efa-k8s-device-plugin"])
    assert cluster_manifests(platform, catalogue)

    neuron = catalogue_with(tmp_path / "neuron", family="trn", accelerator={"model": "trainium2", "count": 16})
    values = chart_values(platform, neuron)
    assert "nvidia-device-plugin" not in values
    assert "train" in str(values["neuron-helm-chart"])


def test_its_launch_template_has_its_layout(
    catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = synthesized("eks", catalogue, tmp_path, monkeypatch)
    launch = resources(cluster, "AWS::EC2::LaunchTemplate")
    (train,) = [t["LaunchTemplateData"] for name, t in launch.items() if name.startswith("Train")]
    assert [(i["NetworkCardIndex"], i["DeviceIndex"], i["InterfaceType"]) for i in train["NetworkInterfaces"]] == LAYOUT
    (nodes,) = [n for n in resources(cluster, "AWS::EKS::Nodegroup").values() if n["InstanceTypes"] == [NAME]]
    assert nodes["AmiType"] == "AL2023_x86_64_NVIDIA"


@pytest.mark.parametrize("orchestrator", ["hyperpod-eks", "hyperpod-slurm"])
def test_hyperpod_is_asked_for_it_by_its_name(
    orchestrator: str, catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = synthesized(orchestrator, catalogue, tmp_path, monkeypatch)
    (hyperpod,) = resources(cluster, "AWS::SageMaker::Cluster").values()
    assert f"ml.{NAME}" in [group["InstanceType"] for group in hyperpod["InstanceGroups"]]
