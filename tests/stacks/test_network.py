"""What the network stack promises: EFA works, subnets fit, and every zone is the one that was asked for."""

from __future__ import annotations

import itertools
import json
from ipaddress import IPv4Network
from pathlib import Path

from tests.seams.shapes import platforms
from tests.stacks.by_example import Synthesized
from tests.synthesis import Template, all_resources, resources, templates_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.platform import Platform

ROUTES = "AWS::EC2::SubnetRouteTableAssociation"


def test_every_group_of_a_node_lets_everything_in_from_itself_and_out_to_itself(
    example: Path, synthesized: Synthesized
) -> None:
    network = synthesized[example.stem]["network"]
    assert efa_group(network) in node_groups(network)
    for kind, itself in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        rules = resources(network, f"AWS::EC2::SecurityGroup{kind}").values()
        assert all((rule[itself], rule["IpProtocol"]) == (rule["GroupId"], "-1") for rule in rules)
        assert {rule["GroupId"]["Fn::GetAtt"][0] for rule in rules} == node_groups(network)


def with_itself(stacks: dict[str, Template]) -> list[tuple[str, str]]:
    """Return the stack and the kind of each rule that lets a group talk to itself, but for groups of the stack."""
    return [
        (role, kind)
        for role, template in stacks.items()
        for kind, itself in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId"))
        for rule in resources(template, f"AWS::EC2::SecurityGroup{kind}").values()
        if rule["GroupId"] == rule.get(itself) and not is_made_in(template, rule["GroupId"])
    ]


def is_made_in(template: Template, group: object) -> bool:
    made = resources(template, "AWS::EC2::SecurityGroup")
    return isinstance(group, dict) and group.get("Fn::GetAtt", [""])[0] in made


def test_no_rule_is_made_that_eks_makes_itself(example: Path, synthesized: Synthesized) -> None:
    """EC2 refuses a second rule. https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html"""
    assert with_itself(synthesized[example.stem]) == []


def test_the_group_of_an_adopted_cluster_gets_the_rule_that_it_lacks() -> None:
    adopted = next(each for each in platforms().values() if each.adopted_cluster)
    assert adopted.adopted_cluster
    group = adopted.adopted_cluster.security_group
    assert group.from_itself and not group.to_itself
    stacks = templates_of(adopted)
    assert [kind for _, kind in with_itself(stacks)] == ["Egress"]
    rules = all_resources(stacks, "AWS::EC2::SecurityGroupEgress").values()
    assert [rule["IpProtocol"] for rule in rules if rule["GroupId"] == group.id] == ["-1"]


def test_the_stack_of_a_nat_gateway_releases_its_address(example: Path, synthesized: Synthesized) -> None:
    network = synthesized[example.stem]["network"]
    gateways = resources(network, "AWS::EC2::NatGateway").values()
    assert bool(gateways) is not load_platform(example).network.is_closed
    for gateway in gateways:
        name, _ = gateway["AllocationId"]["Fn::GetAtt"]
        address = network["Resources"][name]
        assert (address["Type"], address.get("DeletionPolicy", "Delete")) == ("AWS::EC2::EIP", "Delete")


def test_the_efa_group_lets_nothing_out_to_everywhere(example: Path, synthesized: Synthesized) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (read 2026-11-21)"""
    network = synthesized[example.stem]["network"]
    group = resources(network, "AWS::EC2::SecurityGroup")[efa_group(network)]
    # A group without any egress rule is let out to everywhere by EC2.
    assert [rule["CidrIp"] for rule in group["SecurityGroupEgress"]] == ["127.0.0.1/32"]


def efa_group(network: Template) -> str:
    """The logical id of the group that the rules for EFA are in."""
    (name,) = [n for n in resources(network, "AWS::EC2::SecurityGroup") if n.startswith("EfaGroup")]
    return name


def node_groups(network: Template) -> set[str]:
    """The logical ids of the groups that nodes are in."""
    return {name for name in resources(network, "AWS::EC2::SecurityGroup") if name.startswith("Efa")}


def test_every_subnet_lies_in_the_zone_id_of_the_file(example: Path, synthesized: Synthesized) -> None:
    platform = load_platform(example)
    subnets = all_resources(synthesized[example.stem], "AWS::EC2::Subnet").values()
    assert {subnet["AvailabilityZoneId"] for subnet in subnets} == set(platform.zones)
    assert not any("AvailabilityZone" in subnet for subnet in subnets)


def test_subnets_are_the_planned_ones_and_do_not_overlap(example: Path, synthesized: Synthesized) -> None:
    plan = plan_addresses(load_platform(example), load_catalogue())
    subnets = all_resources(synthesized[example.stem], "AWS::EC2::Subnet").values()
    ranges = sorted(IPv4Network(subnet["CidrBlock"]) for subnet in subnets)
    assert ranges == sorted(subnet.cidr for subnet in plan.subnets)
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(ranges))


def test_only_public_subnets_route_to_the_internet_gateway(example: Path, synthesized: Synthesized) -> None:
    network = synthesized[example.stem]["network"]
    routes = resources(network, "AWS::EC2::Route")
    if load_platform(example).network.is_closed:
        assert not routes
        return
    (public,) = [name for name, route in routes.items() if "GatewayId" in route]
    table = routes[public]["RouteTableId"]["Ref"]
    associations = resources(network, "AWS::EC2::SubnetRouteTableAssociation").values()
    reached = {a["SubnetId"]["Ref"] for a in associations if a["RouteTableId"]["Ref"] == table}
    assert reached and all("Public" in subnet for subnet in reached)


def test_image_pulls_stay_inside_the_network(example: Path, synthesized: Synthesized) -> None:
    network, region = synthesized[example.stem]["network"], load_platform(example).region
    services = {e["ServiceName"] for e in resources(network, "AWS::EC2::VPCEndpoint").values()}
    assert {f"com.amazonaws.{region}.{service}" for service in ("s3", "ecr.api", "ecr.dkr")} <= services


def test_subnets_outside_the_primary_range_wait_for_their_own(example: Path, synthesized: Synthesized) -> None:
    network, cluster = synthesized[example.stem]["network"], synthesized[example.stem]["cluster"]
    (vpc,) = resources(network, "AWS::EC2::VPC").values()
    for template in (network, cluster):
        associations = {r["CidrBlock"]: name for name, r in resources(template, "AWS::EC2::VPCCidrBlock").items()}
        for name, subnet in resources(template, "AWS::EC2::Subnet").items():
            cidr = subnet["CidrBlock"]
            outside = not IPv4Network(cidr).subnet_of(IPv4Network(vpc["CidrBlock"]))
            assert template["Resources"][name].get("DependsOn", []) == ([associations[cidr]] if outside else [])


def test_what_follows_the_node_groups_is_in_the_cluster_stack_alone(example: Path, synthesized: Synthesized) -> None:
    """The network stack is deployed first, and could delete nothing that nodes still use."""
    network, cluster = synthesized[example.stem]["network"], synthesized[example.stem]["cluster"]
    groups = {f"{load_platform(example).name}/nodes-{group.name}" for group in load_platform(example).node_groups}
    subnets = resources(cluster, "AWS::EC2::Subnet").values()
    assert {tag["Value"] for subnet in subnets for tag in subnet["Tags"]} == groups
    assert not any("Nodes" in name for name in [*network["Resources"], *network["Outputs"]])


def test_nodes_start_when_their_subnets_have_routes(example: Path, synthesized: Synthesized) -> None:
    cluster = synthesized[example.stem]["cluster"]
    routed = {r["SubnetId"]["Ref"]: name for name, r in resources(cluster, ROUTES).items()}
    assert routed.keys() == resources(cluster, "AWS::EC2::Subnet").keys()
    for kind in ("AWS::EKS::Nodegroup", "AWS::SageMaker::Cluster"):
        for name, nodes in resources(cluster, kind).items():
            told = json.dumps(nodes)
            own = {routes for subnet, routes in routed.items() if f'{{"Ref": "{subnet}"}}' in told}
            assert own and own <= set(cluster["Resources"][name]["DependsOn"])


def test_endpoints_answer_every_range_of_the_network(example: Path, synthesized: Synthesized) -> None:
    network = synthesized[example.stem]["network"]
    plan = plan_addresses(load_platform(example), load_catalogue())
    groups = resources(network, "AWS::EC2::SecurityGroup").values()
    answered = {rule["CidrIp"] for group in groups for rule in group.get("SecurityGroupIngress", [])}
    assert answered == {str(cidr) for cidr in plan.vpc_cidrs}


def test_nodes_and_their_file_system_are_in_a_local_zone_and_the_control_plane_is_not() -> None:
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 1, "zone": "use1-atl2-az1"}
    asked = {"name": "atlas", "region": "us-east-1", "zones": ["use1-az1", "use1-az2"], "node_groups": [group]}
    stacks = templates_of(Platform.model_validate(asked))
    zones: dict[str, set[str]] = {}
    for subnet in all_resources(stacks, "AWS::EC2::Subnet").values():
        (name,) = [tag["Value"] for tag in subnet["Tags"] if tag["Key"] == "Name"]
        zones.setdefault(subnet["AvailabilityZoneId"], set()).add(name.rpartition("/")[2])
    assert {name.removeprefix("atlas-") for name in zones["use1-atl2-az1"]} == {"nodes-train", "storage"}
    assert zones.keys() == {"use1-az1", "use1-az2", "use1-atl2-az1"}
