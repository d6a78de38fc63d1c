"""Which quotas a platform needs, and how much of each."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.anywhere import ANYWHERE
from tests.fictitious import NAME, catalogue_with
from tests.people import with_people
from tests.synthesis import ROOT, templates_of
from trainway.spec.capacity.quotas import quota_needs
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.loader import load_platform

CATALOGUE = load_catalogue()
BLOCK = {"capacity_block": "cr-0123456789abcdef0"}
RESERVED = {"reservation": "cr-0123456789abcdef0"}
LUSTRE = {"Lustre Persistent_2 file systems", "Lustre Persistent_2 storage capacity"}
# Those of which every account has few, whatever the nodes are.
FACTS = service_facts()
OF_ACCOUNT = {
    quota.code
    for quota in (
        *(FACTS.vpc.vpcs_quota, FACTS.vpc.addresses_quota, FACTS.ebs.gp3_quota),
        *(FACTS.eks.clusters_quota, FACTS.eks.node_groups_quota, FACTS.eks.nodes_quota),
        *FACTS.codebuild.builds_quotas.values(),
    )
}
PLAN = {"training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/x"}


def needs(
    tmp_path: Path, orchestrator: str, *groups: dict[str, object], catalogue: Catalogue = CATALOGUE
) -> dict[str, tuple[str | None, int]]:
    file = tmp_path / "platform.yaml"
    where = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "accept": ANYWHERE}
    platform = where | {"orchestrator": orchestrator}
    numbered = [{"name": f"group-{number}", "count": 1, **group} for number, group in enumerate(groups)]
    file.write_text(yaml.safe_dump(with_people(platform | {"node_groups": numbered})))
    found = quota_needs(load_platform(file, catalogue), catalogue)
    return {need.name: (need.code, need.needed) for need in found if need.code not in OF_ACCOUNT}


@pytest.mark.parametrize(
    ("group", "name", "code", "needed"),
    [
        ({"instance_type": "p5.48xlarge", "max_count": 4}, "Running On-Demand P instances", "L-417A185B", 4 * 192),
        (
            {"instance_type": "p5.48xlarge", "capacity": RESERVED},
            "Running On-Demand P instances",
            "L-417A185B",
            192,
        ),
        (
            {"instance_type": "p5e.48xlarge", "max_count": 2, "capacity": BLOCK},
            "Concurrent P5e Capacity Blocks per account",
            "L-C45F30BC",
            384,
        ),
        (
            {"instance_type": "p4d.24xlarge", "capacity": "spot"},
            "All P4, P3 and P2 Spot Instance Requests",
            "L-7212CCBC",
            96,
        ),
        ({"instance_type": "p6-b200.48xlarge", "capacity": "spot"}, "spot quota of p6-b200", None, 192),
    ],
)
def test_eks_nodes_take_vcpus_of_the_quota_of_how_they_are_bought(
    tmp_path: Path, group: dict[str, object], name: str, code: str | None, needed: int
) -> None:
    found = needs(tmp_path, "eks", group)
    assert found[name] == (code, needed)
    system = 2 + 2 * 2  # two nodes, and up to two new ones in each of two zones while they are updated
    assert found["Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"] == ("L-1216C47A", system * 8)
    assert len(found.keys() - LUSTRE) == 2


def test_groups_of_one_quota_are_added_up(tmp_path: Path) -> None:
    found = needs(tmp_path, "eks", {"instance_type": "p5.48xlarge"}, {"instance_type": "p4d.24xlarge"})
    assert found["Running On-Demand P instances"] == ("L-417A185B", 192 + 96)


def test_hyperpod_nodes_take_instances_of_their_types_own_quota(tmp_path: Path) -> None:
    found = needs(
        tmp_path,
        "hyperpod-eks",
        {"instance_type": "p5.48xlarge", "max_count": 3},
        {"instance_type": "g5.8xlarge", "max_count": 2, "capacity": "spot"},
        {"instance_type": "p5en.48xlarge", "capacity": PLAN},
    )
    assert found["ml.p5.48xlarge for cluster usage"] == ("L-8762A75F", 3)
    assert found["ml.g5.8xlarge for cluster spot instance usage"] == (None, 2)
    plan = "Number of ml.p5en.48xlarge instances in reserved capacity across training plans per Region"
    assert found[plan] == (None, 1)
    assert found["Maximum number instances allowed per SageMaker HyperPod cluster"] == ("L-2CE978FC", 6)
    assert found["Total number of instances allowed across SageMaker HyperPod clusters"] == ("L-3308CCC7", 6)


def test_slurm_adds_its_head_nodes(tmp_path: Path) -> None:
    found = needs(tmp_path, "hyperpod-slurm", {"instance_type": "m7i.2xlarge", "max_count": 3})
    assert found["ml.m7i.2xlarge for cluster usage"] == ("L-FC157D3E", 3 + 2)
    assert found["Maximum number instances allowed per SageMaker HyperPod cluster"][1] == 5
    assert "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances" not in found


@pytest.mark.parametrize(
    ("storage", "needed"),
    [
        ({"lustre": {"capacity_tib": 9.6}}, {"L-FD6F2F22": 1, "L-8F1B9C74": 9600}),
        ({"lustre": {"storage_class": "intelligent-tiering", "mirror": False}}, {"L-FD6F2F22": 1}),
        (
            {"home": {"capacity_gib": 2048, "throughput_mbps": 640}},
            {"L-FD6F2F22": 1, "L-8F1B9C74": 1200, "L-59D0763F": 1, "L-88479C21": 2048, "L-4EDE4065": 640},
        ),
    ],
    ids=["Lustre", "elastic", "home"],
)
def test_file_systems_take_fsxs_quotas(tmp_path: Path, storage: dict[str, object], needed: dict[str, int]) -> None:
    platform = yaml.safe_load((ROOT / "examples" / "hyperpod-slurm-p5en.yaml").read_text()) | {"storage": storage}
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform))
    found = {need.code: need.needed for need in quota_needs(load_platform(file), CATALOGUE) if need.service == "fsx"}
    assert found == needed


def test_every_code_of_the_catalogue_has_its_name() -> None:
    codes = {code for instance in CATALOGUE.values() for code in instance.quota_codes.values()}
    assert codes == set(service_facts().ec2_quotas.names)


def test_a_new_type_brings_its_own(tmp_path: Path) -> None:
    catalogue = catalogue_with(tmp_path / "catalogue")
    found = needs(tmp_path, "eks", {"instance_type": NAME, "max_count": 2}, catalogue=catalogue)
    assert found["Running On-Demand P instances"] == ("L-417A185B", 2 * 384)
    hyperpod = needs(tmp_path, "hyperpod-eks", {"instance_type": NAME, "max_count": 2}, catalogue=catalogue)
    assert hyperpod[f"ml.{NAME} for cluster usage"] == (None, 2)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_names_a_quota_for_each_group(file: Path) -> None:
    platform = load_platform(file)
    assert all(need.needed > 0 for need in quota_needs(platform, CATALOGUE))


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (
            "eks-p5",
            {
                "VPCs per Region": 1,
                "EC2-VPC Elastic IPs": 1,
                "Clusters": 1,
                # train, data, and the system nodes.
                "Managed node groups per cluster": 3,
                "Nodes per managed node group": 16,
                # 4 nodes of 500 GiB, and two of 100 GiB: without those that may come later.
                "Storage for General Purpose SSD (gp3) volumes, in TiB": 3,
            },
        ),
        ("closed-hyperpod-eks", {"VPCs per Region": 1, "Clusters": 1}),
        ("hyperpod-slurm-p5en", {"VPCs per Region": 1, "EC2-VPC Elastic IPs": 1}),
    ],
)
def test_a_platform_needs_what_an_account_has_few_of(example: str, expected: dict[str, int]) -> None:
    platform = load_platform(ROOT / "examples" / f"{example}.yaml")
    found = {need.name: need.needed for need in quota_needs(platform, CATALOGUE) if need.code in OF_ACCOUNT}
    builds = {quota.name for quota in FACTS.codebuild.builds_quotas.values()}
    assert {name: needed for name, needed in found.items() if name not in builds} == expected


@pytest.mark.parametrize("example", ["platform", "hyperpod-slurm-p5en", "closed-hyperpod-eks"])
def test_the_quotas_of_builds_are_those_of_the_computers_in_the_templates(example: str) -> None:
    file = ROOT / ("platform.yaml" if example == "platform" else f"examples/{example}.yaml")
    sizes = {quota.name: size for size, quota in FACTS.codebuild.builds_quotas.items()}
    needed = {sizes[each.name] for each in quota_needs(load_platform(file), CATALOGUE) if each.name in sizes}
    projects = [
        each["Properties"]["Environment"]
        for template in templates_of(file).values()
        for each in template["Resources"].values()
        if each["Type"] == "AWS::CodeBuild::Project"
    ]
    assert {each["Type"] for each in projects} == {"LINUX_CONTAINER"}
    assert {each["ComputeType"] for each in projects} == needed
