"""A network that exists is described as it is, from the answers of EC2; the platform then adds only what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner

from tests.owners_vpc import Ids, make_vpc
from tests.people import ADMIN
from tests.representatives import with_representatives
from tests.synthesis import Template, resources, templates_of
from trainway.adopt.network import look_at_network
from trainway.cli import app
from trainway.spec.errors import UsageError
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError
from trainway.spec.sections.existing import ExistingNetwork

REGION = "us-west-2"
PLATFORM: dict[str, Any] = {
    "name": "tenant",
    "region": REGION,
    "zones": ["usw2-az2", "usw2-az1"],
    "orchestrator": "eks",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
    "kubernetes": {"admins": [ADMIN]},
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


@pytest.fixture(scope="module")
def ec2() -> Iterator[Any]:
    from moto import mock_aws

    with mock_aws():
        yield boto3.client("ec2", region_name=REGION)


@pytest.fixture
def there(ec2: Any) -> Ids:
    """A VPC of the test's own, which it may change."""
    return make_vpc(ec2)


def to_itself(group: str, description: str = "theirs") -> list[dict[str, Any]]:
    return [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group, "Description": description}]}]


def adopt(there: Ids, *arguments: str, tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """What `trainway adopt` prints, as a platform file's `network`."""
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | changes))
    ran = CliRunner().invoke(app, ["adopt", there["vpc"], "--platform", str(file), *arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    network: dict[str, Any] = yaml.safe_load(ran.stdout)["network"]
    return network


def write(tmp_path: Path, network: dict[str, Any], **changes: Any) -> Path:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump({**PLATFORM, **changes, "network": network}))
    return file


def deployed(tmp_path: Path, network: dict[str, Any], **changes: Any) -> dict[str, Template]:
    return templates_of(write(tmp_path, network, **changes))


def test_a_vpc_is_described_as_it_is(there: Ids, tmp_path: Path) -> None:
    found = adopt(there, "--subnet", f"nodes-train={there['nodes']}", tmp_path=tmp_path)["existing"]
    assert found == {
        "vpc_id": there["vpc"],
        "cidrs": ["10.20.0.0/16", "10.21.0.0/16"],
        "taken": ["10.20.0.0/20", "10.20.16.0/20", "10.20.32.0/20", "10.20.48.0/20"],
        "route_table_id": there["private"],
        "endpoints": ["s3"],
        "subnets": {
            "nodes-train": {"id": there["nodes"], "zone": "usw2-az2", "cidr": "10.20.16.0/20", "free": 4091},
        },
    }


def test_in_an_adopted_vpc_only_what_is_missing_is_made(there: Ids, tmp_path: Path) -> None:
    network = adopt(there, "--subnet", f"nodes-train={there['nodes']}", tmp_path=tmp_path)
    stacks = deployed(tmp_path, {"cidr": "10.21.0.0/16", **network})
    kinds = {resource["Type"] for resource in stacks["network"]["Resources"].values()}
    assert kinds == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::Subnet",
        "AWS::EC2::SubnetRouteTableAssociation",
    }
    made = resources(stacks["network"], "AWS::EC2::Subnet")
    assert {subnet["VpcId"] for subnet in made.values()} == {there["vpc"]}
    assert sorted(t["Value"] for s in made.values() for t in s["Tags"] if t["Key"] == "Name") == [
        "tenant/cluster-0",
        "tenant/cluster-1",
        "tenant/storage",
    ]
    tables = {r["RouteTableId"] for r in resources(stacks["network"], "AWS::EC2::SubnetRouteTableAssociation").values()}
    assert tables == {there["private"]}
    (train,) = [
        g for g in resources(stacks["cluster"], "AWS::EKS::Nodegroup").values() if g["InstanceTypes"] == ["p5.48xlarge"]
    ]
    assert train["Subnets"] == [there["nodes"]]


def test_with_every_subnet_and_the_group_adopted_only_rules_are_added(there: Ids, tmp_path: Path) -> None:
    names = {"cluster-0": "cluster-0", "cluster-1": "cluster-1", "storage": "nodes", "nodes-train": "nodes"}
    chosen = [word for name, key in names.items() for word in ("--subnet", f"{name}={there[key]}")]
    network = adopt(there, *chosen, "--security-group", there["group"], tmp_path=tmp_path)
    stacks = deployed(tmp_path, network)
    added = stacks["network"]["Resources"].values()
    assert {resource["Type"] for resource in added} == {
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    }
    assert {resource["Properties"]["GroupId"] for resource in added} == {there["group"]}
    (file_system,) = resources(stacks["file-system"], "AWS::FSx::FileSystem").values()
    assert file_system["SubnetIds"] == [there["nodes"]]


@pytest.mark.parametrize("has", with_representatives(["nothing", "ingress", "egress", "both"], {"ingress", "egress"}))
def test_a_group_gets_the_rules_that_it_lacks_and_no_other(ec2: Any, there: Ids, tmp_path: Path, has: str) -> None:
    group = there["group"]
    if has in ("ingress", "both"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=to_itself(group))
    if has in ("egress", "both"):
        ec2.authorize_security_group_egress(GroupId=group, IpPermissions=to_itself(group))
    network = {"cidr": "10.21.0.0/16", **adopt(there, "--security-group", group, tmp_path=tmp_path)}
    stack = deployed(tmp_path, network)["network"]
    assert not resources(stack, "AWS::EC2::SecurityGroup")
    added = {kind: len(resources(stack, f"AWS::EC2::SecurityGroup{kind.title()}")) for kind in ("ingress", "egress")}
    assert added == {"ingress": int(has not in ("ingress", "both")), "egress": int(has not in ("egress", "both"))}


def test_what_a_deploy_added_is_left_out_when_looking_again(ec2: Any, there: Ids, tmp_path: Path) -> None:
    """Else the next deploy would take it for the owner's, and delete it."""
    chosen = ["--security-group", there["group"]]
    network = {"cidr": "10.30.0.0/16", "access": "closed", **adopt(there, *chosen, tmp_path=tmp_path)}
    stack = deployed(tmp_path, network)["network"]
    apply(ec2, there, stack)
    assert adopt(there, *chosen, tmp_path=tmp_path)["existing"] == network["existing"]
    # Another platform's are somebody else's.
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM | {"name": "other"}))
    found = look_at_network(there["vpc"], platform="other", region=REGION, subnets={})
    assert "10.30.0.0/16" in map(str, found.cidrs)
    assert len(found.taken) == len(network["existing"]["taken"]) + len(resources(stack, "AWS::EC2::Subnet"))
    assert {"ecr.api", "logs"} <= set(found.endpoints)


def apply(ec2: Any, there: Ids, stack: Template) -> None:
    """What the stack adds to the VPC."""
    for cidr in resources(stack, "AWS::EC2::VPCCidrBlock").values():
        ec2.associate_vpc_cidr_block(VpcId=cidr["VpcId"], CidrBlock=cidr["CidrBlock"])
    for subnet in resources(stack, "AWS::EC2::Subnet").values():
        tags = [{"ResourceType": "subnet", "Tags": subnet["Tags"]}]
        ec2.create_subnet(VpcId=there["vpc"], CidrBlock=subnet["CidrBlock"], TagSpecifications=tags)
    for endpoint in resources(stack, "AWS::EC2::VPCEndpoint").values():
        ec2.create_vpc_endpoint(
            VpcId=there["vpc"],
            ServiceName=endpoint["ServiceName"],
            VpcEndpointType=endpoint["VpcEndpointType"],
            PrivateDnsEnabled=True,
            TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": endpoint["Tags"]}],
        )
    for kind, authorize in (
        ("Ingress", ec2.authorize_security_group_ingress),
        ("Egress", ec2.authorize_security_group_egress),
    ):
        for rule in resources(stack, f"AWS::EC2::SecurityGroup{kind}").values():
            if rule["GroupId"] == there["group"]:
                authorize(GroupId=there["group"], IpPermissions=to_itself(there["group"], rule["Description"]))


def test_a_closed_platform_adds_the_endpoints_that_are_missing(ec2: Any, there: Ids, tmp_path: Path) -> None:
    for service in ("ecr.api", "logs"):
        ec2.create_vpc_endpoint(
            VpcId=there["vpc"],
            ServiceName=f"com.amazonaws.{REGION}.{service}",
            VpcEndpointType="Interface",
            SubnetIds=[there["nodes"]],
            PrivateDnsEnabled=service == "logs",
        )
    network = {"cidr": "10.21.0.0/16", "access": "closed", **adopt(there, tmp_path=tmp_path)}
    assert network["existing"]["endpoints"] == ["logs", "s3"]  # one without its own name answers nobody
    stack = deployed(tmp_path, network)["network"]
    services = {e["ServiceName"].split(".", 3)[-1] for e in resources(stack, "AWS::EC2::VPCEndpoint").values()}
    assert {"ecr.api", "eks", "eks-auth"} <= services
    assert not services & {"logs", "s3"}
    groups = resources(stack, "AWS::EC2::SecurityGroup").values()
    answered = {rule["CidrIp"] for group in groups for rule in group.get("SecurityGroupIngress", [])}
    assert answered == {"10.20.0.0/16", "10.21.0.0/16"}


def test_a_free_range_is_added_to_the_vpc_when_it_is_outside_all_it_has(there: Ids, tmp_path: Path) -> None:
    stack = deployed(tmp_path, {"cidr": "10.30.0.0/16", **adopt(there, tmp_path=tmp_path)})["network"]
    (added,) = resources(stack, "AWS::EC2::VPCCidrBlock").values()
    assert added == {"CidrBlock": "10.30.0.0/16", "VpcId": there["vpc"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cidr": "10.20.0.0/16"}, "overlaps the VPC's subnet 10.20."),
        ({"cidr": "10.20.0.0/15"}, "a VPC's range is between /16 and /28"),
        ({}, "it has no `cidr`, and cluster-0, cluster-1, storage, nodes-train must be made somewhere"),
        ({"cidr": "10.21.0.0/16", "route_table_id": None}, "it has no `route_table_id`"),
        ({"cidr": "10.21.0.0/16", "subnets": {"nodes-trian": "nodes"}}, "the platform has no subnet of this name"),
        ({"cidr": "10.21.0.0/16", "subnets": {"nodes-train": "cluster-1"}}, "the plan has nodes-train in usw2-az2"),
        ({"cidr": "10.21.0.0/16", "cidrs": ["10.20.0.0/16", *(f"10.4{n}.0.0/16" for n in range(4))]}, "at most 5"),
    ],
    ids=["overlap", "too large", "no range", "no route table", "no such subnet", "another zone", "too many ranges"],
)
def test_what_cannot_be_adopted_is_an_error_in_the_file(
    there: Ids, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    network = adopt(there, tmp_path=tmp_path)
    existing = network["existing"]
    if "route_table_id" in change:
        del existing["route_table_id"]
    for name, key in change.get("subnets", {}).items():
        zone = "usw2-az1" if key == "cluster-1" else "usw2-az2"
        existing["subnets"] = {name: {"id": there[key], "zone": zone, "cidr": "10.20.48.0/20", "free": 4091}}
    existing["cidrs"] = change.get("cidrs", existing["cidrs"])
    if "cidr" in change:
        network["cidr"] = change["cidr"]
    with pytest.raises(SpecError) as caught:
        load_platform(write(tmp_path, network))
    assert said in str(caught.value)


def test_a_subnet_that_is_too_full_is_refused_with_the_sum(there: Ids, tmp_path: Path) -> None:
    network = {"cidr": "10.21.0.0/16", **adopt(there, "--subnet", f"nodes-train={there['nodes']}", tmp_path=tmp_path)}
    network["existing"]["subnets"]["nodes-train"]["free"] = 20
    with pytest.raises(SpecError, match=rf"{there['nodes']} has 20 free addresses: nodes-train: \d+ \(1 × p5"):
        load_platform(write(tmp_path, network))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--subnet", "nodes-trian=subnet-1"], "tenant has no subnet nodes-trian"),
        (["--subnet", "nodes-train=subnet-0123456789abcdef0"], "it is not a subnet of vpc-"),
        (["--route-table", "rtb-0123456789abcdef0"], "it is not a route table of vpc-"),
        (["--security-group", "sg-0123456789abcdef0"], "does not exist"),
    ],
)
def test_what_is_not_there_is_said_and_nothing_printed(
    there: Ids, tmp_path: Path, arguments: list[str], said: str
) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(PLATFORM))
    ran = CliRunner().invoke(app, ["adopt", there["vpc"], "--platform", str(file), *arguments])
    assert isinstance(ran.exception, UsageError)
    assert said in str(ran.exception)
    assert ran.stdout == ""


@pytest.mark.usefixtures("ec2")
def test_a_vpc_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match="vpc-0123456789abcdef0 in us-west-2 cannot be looked at"):
        look_at_network("vpc-0123456789abcdef0", platform="tenant", region=REGION, subnets={})


@pytest.mark.parametrize(
    ("attribute", "said"), [("EnableDnsSupport", "enableDnsSupport is off"), ("EnableDnsHostnames", "Hostnames is off")]
)
def test_a_vpc_without_names_is_refused(ec2: Any, there: Ids, attribute: str, said: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-11-21)"""
    ec2.modify_vpc_attribute(VpcId=there["vpc"], **{attribute: {"Value": False}})
    with pytest.raises(UsageError, match=said):
        look_at_network(there["vpc"], platform="tenant", region=REGION, subnets={})


def test_a_group_of_another_vpc_is_refused(ec2: Any, there: Ids) -> None:
    other = ec2.create_vpc(CidrBlock="10.90.0.0/16")["Vpc"]["VpcId"]
    group = ec2.create_security_group(GroupName="other", Description="other", VpcId=other)["GroupId"]
    with pytest.raises(UsageError, match=r"it is not a security group of vpc-[\s\S]*use a security group of vpc-"):
        look_at_network(there["vpc"], platform="tenant", region=REGION, subnets={}, security_group_id=group)


def test_what_is_found_is_what_the_file_can_say(there: Ids) -> None:
    found = look_at_network(there["vpc"], platform="tenant", region=REGION, subnets={"nodes-train": there["nodes"]})
    assert ExistingNetwork.model_validate(found.model_dump(mode="json")) == found
