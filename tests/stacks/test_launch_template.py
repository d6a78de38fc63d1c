"""Every type of the catalogue is launched with the interfaces that the catalogue lays out for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthesis import ROOT, Template, all_resources, make_app, resources, templates, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.sections.node_group import NodeGroup

CATALOGUE = load_catalogue()
# All with accelerators, and some of the thousand without, which share a layout.
WITHOUT = ("m7i.2xlarge", "m8g.2xlarge", "r6idn.32xlarge", "c5ad.24xlarge", "m8i.metal-48xl")
TYPES = sorted(name for name in CATALOGUE if CATALOGUE[name].accelerator or name in WITHOUT)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Launch template data by instance type, from one stack with a template for each."""
    import aws_cdk as cdk

    from stacks.constructs.eks.launch_template import NodeConfig, training_launch_template

    app = cdk.App(outdir=str(tmp_path_factory.mktemp("templates")))
    stack = cdk.Stack(app, "every-type")
    identifiers = {}
    for number, name in enumerate(TYPES):
        group = NodeGroup(name=f"group-{number}", instance_type=name, count=1)
        template = training_launch_template(
            stack,
            f"T{number}",
            name="test",
            group=group,
            instance=CATALOGUE[name],
            config=NodeConfig(pods=32, parallel_image_pull=True),
            security_group_ids=["sg-0"],
            tags={},
        )
        identifiers[stack.get_logical_id(template)] = name
    found = resources(app.synth().get_stack_by_name("every-type").template, "AWS::EC2::LaunchTemplate")
    return {identifiers[identifier]: each["LaunchTemplateData"] for identifier, each in found.items()}


@pytest.mark.parametrize("name", TYPES)
def test_the_interfaces_are_the_catalogues_layout(launched: dict[str, dict[str, Any]], name: str) -> None:
    interfaces = launched[name]["NetworkInterfaces"]
    assert [(i["NetworkCardIndex"], i["DeviceIndex"], i["InterfaceType"]) for i in interfaces] == [
        (i.network_card_index, i.device_index, i.kind.value) for i in CATALOGUE[name].interfaces
    ]


RESERVED = "cr-0123456789abcdef0"


WAYS: dict[str, Any] = {
    "on-demand": "on-demand",
    "spot": "spot",
    "reservation": {"reservation": RESERVED},
    "capacity-block": {"capacity_block": RESERVED},
}


@pytest.fixture(scope="module")
def bought(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """Return the stacks of a platform with a node group for each way of buying."""
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text())
    platform["node_groups"] = [
        {"name": name, "instance_type": "p5.48xlarge", "count": 2, "capacity": capacity}
        for name, capacity in WAYS.items()
    ]
    platform["teams"] = []
    file = tmp_path_factory.mktemp("bought") / "platform.yaml"
    file.write_text(yaml.safe_dump(platform))
    return templates_of(file)


@pytest.mark.parametrize(
    ("name", "capacity_type", "template"),
    [
        ("on-demand", "ON_DEMAND", {"Placement"}),
        # EKS asks for Spot itself, and refuses a template that does.
        ("spot", "SPOT", {"Placement"}),
        ("reservation", "ON_DEMAND", {"CapacityReservationSpecification"}),
        (
            "capacity-block",
            "CAPACITY_BLOCK",
            {"CapacityReservationSpecification", "InstanceMarketOptions", "InstanceType"},
        ),
    ],
    ids=WAYS,
)
def test_each_way_of_buying_says_what_ec2_wants_and_no_more(
    bought: dict[str, Template], name: str, capacity_type: str, template: set[str]
) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html (read 2026-11-21)"""
    cluster = bought["cluster"]
    (nodes,) = [
        each
        for each in resources(cluster, "AWS::EKS::Nodegroup").values()
        if each["Labels"]["trainway.dev/nodes"] == name
    ]
    data = resources(cluster, "AWS::EC2::LaunchTemplate")[nodes["LaunchTemplate"]["Id"]["Ref"]]["LaunchTemplateData"]
    said = {"CapacityReservationSpecification", "InstanceMarketOptions", "InstanceType", "Placement"} & set(data)
    assert said == template
    if "InstanceMarketOptions" in said:
        assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
        assert data["InstanceType"] == "p5.48xlarge"
    if "CapacityReservationSpecification" in said:
        target = {"CapacityReservationTarget": {"CapacityReservationId": RESERVED}}
        assert data["CapacityReservationSpecification"] == target
    if "Placement" in said:
        group = resources(cluster, "AWS::EC2::PlacementGroup")[data["Placement"]["GroupName"]["Ref"]]
        assert group["Strategy"] == "cluster"
    assert nodes["CapacityType"] == capacity_type
    # Where capacity is reserved, a new node has room only when an old one is gone.
    strategy = "DEFAULT" if isinstance(WAYS[name], str) else "MINIMAL"
    assert nodes["UpdateConfig"] == {"MaxUnavailable": 1, "UpdateStrategy": strategy}
    # EKS refuses a type that stands in both places, or in none.
    assert ("InstanceTypes" in nodes) != ("InstanceType" in data)
    assert len(nodes["Subnets"]) == 1


def test_an_image_of_ones_own_is_told_where_the_cluster_is(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (read 2026-11-21)"""
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text())
    image = "ami-0123456789abcdef0"
    train = {"name": "train", "instance_type": "p5.48xlarge", "count": 2, "image_id": image}
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump({**platform, "teams": [], "node_groups": [train]}))
    stacks = templates_of(file)
    cluster = stacks["cluster"]
    data = next(
        each["LaunchTemplateData"]
        for name, each in resources(cluster, "AWS::EC2::LaunchTemplate").items()
        if name.startswith("Train")
    )
    assert data["ImageId"] == image
    (nodes,) = [n for name, n in resources(cluster, "AWS::EKS::Nodegroup").items() if name.startswith("Train")]
    assert "AmiType" not in nodes
    told = json.dumps(data["UserData"])
    (control_plane,) = resources(stacks["control-plane"], "AWS::EKS::Cluster").values()
    assert control_plane["KubernetesNetworkConfig"]["ServiceIpv4Cidr"] == "172.20.0.0/16"
    for part in ("CertificateAuthorityData", "Endpoint", "cidr: 172.20.0.0/16", "nvidia.com/gpu=present:NoSchedule"):
        assert part in told


def test_hyperpod_takes_an_image_of_ones_own(tmp_path: Path) -> None:
    platform = yaml.safe_load((ROOT / "examples" / "hyperpod-slurm-p5en.yaml").read_text())
    platform["node_groups"][0]["image_id"] = "ami-0123456789abcdef0"
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform))
    cluster = templates_of(file)["cluster"]
    (hyperpod,) = resources(cluster, "AWS::SageMaker::Cluster").values()
    images = {group["InstanceGroupName"]: group.get("ImageId") for group in hyperpod["InstanceGroups"]}
    assert images == {"controller": None, "login": None, "train": "ami-0123456789abcdef0"}


@pytest.fixture(scope="module")
def other_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """Return the stacks of a network with the usual range of services, whose nodes pull one layer after the other."""
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text())
    platform["network"] = {"cidr": "172.20.0.0/16"}
    platform["kubernetes"]["parallel_image_pull"] = False
    file = tmp_path_factory.mktemp("other-settings") / "platform.yaml"
    file.write_text(yaml.safe_dump(platform))
    return templates_of(file)


def test_services_have_a_range_that_the_vpc_does_not(other_settings: dict[str, Template]) -> None:
    ranges = {}
    for stacks in (templates_of(ROOT / "examples/eks-p5.yaml"), other_settings):
        (vpc,) = resources(stacks["network"], "AWS::EC2::VPC").values()
        (control_plane,) = resources(stacks["control-plane"], "AWS::EKS::Cluster").values()
        ranges[vpc["CidrBlock"]] = control_plane["KubernetesNetworkConfig"]["ServiceIpv4Cidr"]
    assert ranges == {"10.0.0.0/16": "172.20.0.0/16", "172.20.0.0/16": "10.100.0.0/16"}


@pytest.mark.parametrize("name", TYPES)
def test_images_are_pulled_in_parallel_where_fast_disks_take_them(
    launched: dict[str, dict[str, Any]], name: str
) -> None:
    instance = CATALOGUE[name]
    parallel = bool(instance.accelerator and instance.instance_store)
    assert ("FastImagePull: true" in json.dumps(launched[name]["UserData"])) == parallel


def test_images_are_pulled_one_layer_after_the_other_where_the_file_says_so(
    other_settings: dict[str, Template],
) -> None:
    parallel, sequential = (
        [
            "FastImagePull" in json.dumps(each["LaunchTemplateData"]["UserData"])
            for each in resources(stacks["cluster"], "AWS::EC2::LaunchTemplate").values()
        ]
        for stacks in (templates_of(ROOT / "examples/eks-p5.yaml"), other_settings)
    )
    assert any(parallel)
    assert sequential and not any(sequential)


def test_an_edit_of_a_script_that_nodes_fetch_replaces_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EKS replaces the nodes of a group when its launch template or a version of the node group changes."""
    from stacks.constructs.eks import node_scripts

    before = templates_of(ROOT / "examples/eks-p5.yaml")
    copy = tmp_path / "checkout" / "lifecycle_scripts"
    copy.mkdir(parents=True)
    script = (ROOT / "lifecycle_scripts/lustre_efa.sh").read_text(encoding="utf-8")
    (copy / "lustre_efa.sh").write_text(f"{script}# another line\n", encoding="utf-8")
    monkeypatch.setattr(node_scripts, "CHECKOUT", copy.parent)
    after = templates(make_app(ROOT / "examples/eks-p5.yaml", tmp_path / "cdk.out"))
    for kind in ("AWS::EC2::LaunchTemplate", "AWS::EKS::Nodegroup"):
        assert all_resources(before, kind) == all_resources(after, kind)
    parameters = [resources(each["control-plane"], "AWS::SSM::Parameter") for each in (before, after)]
    assert parameters[0].keys() == parameters[1].keys() and parameters[0] != parameters[1]
