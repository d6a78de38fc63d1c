"""What pods can ask for on a node group's nodes is counted in one place, whole GPUs and fractions of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.plan import plan_document, plan_text
from trainway.spec.capacity.devices import device_counts, devices_of, ranks_of
from trainway.spec.capacity.rules import mig_divides_what_can_be_divided
from trainway.spec.facts.catalogue import Accelerator
from trainway.spec.kubernetes.pod_network import pods_of_group
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.sections.kubernetes import Kubernetes
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

DIVIDED = {name: each.accelerator for name, each in CATALOGUE.items() if each.accelerator and each.accelerator.mig}
OPERATOR: dict[str, Any] = {"gpu_devices": "operator"}


def group(**keys: Any) -> NodeGroup:
    return NodeGroup.model_validate({"name": "train", "instance_type": "p5.48xlarge", "count": 1, **keys})


@pytest.mark.parametrize(
    ("asked", "gpu_class", "efa_class"),
    [
        ({}, None, None),
        ({"efa_devices": "dra"}, None, "efa.networking.k8s.aws"),
        ({"gpu_devices": "dra", "queues": "none"}, "gpu.nvidia.com", "efa.networking.k8s.aws"),
        ({"gpu_devices": "dra", "efa_devices": "plugin", "queues": "none"}, "gpu.nvidia.com", None),
        ({"gpu_devices": "operator"}, None, None),
    ],
    ids=str,
)
def test_devices_are_requested_or_claimed_as_the_file_says(
    asked: dict[str, str], gpu_class: str | None, efa_class: str | None
) -> None:
    platform = platform_of(kubernetes=asked)
    gpu, efa = devices_of(platform, platform.node_groups[0], CATALOGUE)
    assert (gpu.resource, gpu.count, gpu.device_class) == ("nvidia.com/gpu", 8, gpu_class)
    assert (efa.resource, efa.count, efa.device_class) == ("vpc.amazonaws.com/efa", 32, efa_class)


def test_both_come_by_one_mechanism_where_the_file_does_not_say() -> None:
    """Else nothing puts a GPU and an EFA device of one PCIe root together."""
    assert Kubernetes().efa_devices_or_default == "plugin"
    assert Kubernetes(gpu_devices="operator").efa_devices_or_default == "plugin"
    assert Kubernetes(gpu_devices="dra").efa_devices_or_default == "dra"


def test_eight_h100_are_56_fractions_and_no_whole_gpu() -> None:
    platform = platform_of(kubernetes=OPERATOR, node_groups=[group(mig="1g.10gb").model_dump()])
    counts = device_counts(platform, platform.node_groups[0], CATALOGUE)
    assert counts == {"nvidia.com/mig-1g.10gb": 56, "vpc.amazonaws.com/efa": 32}
    assert ranks_of(platform.node_groups[0], CATALOGUE["p5.48xlarge"]) == 1


def test_the_plan_shows_fractions_and_enough_pods_for_them() -> None:
    platform = platform_of(kubernetes=OPERATOR, teams=[], node_groups=[group(mig="2g.20gb").model_dump()])
    document = plan_document(platform, CATALOGUE)
    (nodes,) = document["node_groups"]
    assert nodes["devices_per_node"] == {"nvidia.com/mig-2g.20gb": 24, "vpc.amazonaws.com/efa": 32}
    assert nodes["pods_per_node"] == 32 + 24
    assert "24 nvidia.com/mig-2g.20gb, 32 vpc.amazonaws.com/efa" in plan_text(document)


def test_every_fraction_has_an_address_in_the_groups_subnet() -> None:
    def addresses(**keys: Any) -> int:
        platform = platform_of(kubernetes=OPERATOR, teams=[], node_groups=[group(**keys).model_dump()])
        return sum(need.addresses for subnet in plan_addresses(platform, CATALOGUE).subnets for need in subnet.needs)

    assert addresses(mig="1g.10gb") > addresses()


@pytest.mark.parametrize("name", DIVIDED)
def test_no_node_is_told_to_run_more_pods_than_eks_lets_it(name: str) -> None:
    most = CATALOGUE[name].pod_capacity(prefix_delegation=True)
    for profile in DIVIDED[name].mig:
        assert pods_of_group(group(instance_type=name, mig=profile), CATALOGUE[name], Orchestrator.EKS) <= most


@pytest.mark.parametrize("name", DIVIDED)
def test_the_fractions_of_a_gpu_are_no_more_than_the_gpu(name: str) -> None:
    """EC2 reports a GPU's memory rounded down, and NVIDIA's names round it."""
    chip: Accelerator = DIVIDED[name]
    slices = max(int(profile.split("g.")[0]) for profile in chip.mig)
    for profile, most in chip.mig.items():
        part, memory = (int(text) for text in re.findall(r"\d+", profile))
        assert part * most <= slices
        assert memory * most <= chip.memory_gib * 1.01
    assert chip.mig[max(chip.mig, key=lambda profile: int(profile.split("g.")[0]))] == 1


@pytest.mark.parametrize("name", ["g5.48xlarge", "g6e.48xlarge", "p6-b300.48xlarge", "g7.48xlarge", "trn2.48xlarge"])
def test_types_whose_gpus_have_no_published_profile_for_eks_are_refused(name: str) -> None:
    platform = platform_of(
        kubernetes=OPERATOR, teams=[], node_groups=[group(instance_type=name, mig="1g.10gb").model_dump()]
    )
    ((_, reason, remedy),) = mig_divides_what_can_be_divided(platform, CATALOGUE)
    assert f"a {name} has no GPUs with this profile" in reason
    assert "remove the key" in remedy


@pytest.mark.parametrize("name", DIVIDED)
def test_each_profile_of_a_gpu_is_accepted_on_its_types(name: str) -> None:
    for profile in DIVIDED[name].mig:
        groups = [group(instance_type=name, mig=profile).model_dump()]
        platform = platform_of(kubernetes=OPERATOR, teams=[], node_groups=groups)
        assert list(mig_divides_what_can_be_divided(platform, CATALOGUE)) == []
