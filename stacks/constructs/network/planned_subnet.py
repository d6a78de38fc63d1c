"""One subnet of the address plan, with its route table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from trainway.spec.network.addressing import Subnet
from trainway.spec.network.subnets import SubnetRole


@dataclass(frozen=True)
class RoutedSubnet:
    """A subnet's ID, and the association with its route table. Nodes that start before the association have no routes.

    For an existing subnet, the platform creates no association.
    """

    id: str
    routes: cdk.CfnResource | None = None


def add_ranges(scope: Construct, vpc_id: str, cidrs: tuple[IPv4Network, ...]) -> dict[IPv4Network, ec2.CfnVPCCidrBlock]:
    """Add CIDR blocks to a VPC, and return their associations.

    An association is named by its CIDR block, so that adding another one does not change those in use.
    """
    return {
        cidr: ec2.CfnVPCCidrBlock(scope, f"Cidr{cidr.network_address}", vpc_id=vpc_id, cidr_block=str(cidr))
        for cidr in cidrs
    }


def planned_subnet(
    scope: Construct,
    subnet: Subnet,
    *,
    platform: str,
    vpc_id: str,
    route_table_id: str,
    added: Mapping[IPv4Network, ec2.CfnVPCCidrBlock],
) -> RoutedSubnet:
    """Return the existing subnet, or create it in a CIDR block of the VPC or in one that is added to it."""
    if subnet.adopted:
        return RoutedSubnet(subnet.adopted.id)
    logical = "".join(part.capitalize() for part in subnet.name.split("-"))
    resource = ec2.CfnSubnet(
        scope,
        f"{logical}Subnet",
        vpc_id=vpc_id,
        availability_zone_id=subnet.zone,
        cidr_block=str(subnet.cidr),
        map_public_ip_on_launch=False,
        tags=[cdk.CfnTag(key="Name", value=f"{platform}/{subnet.name}"), *_load_balancer_tags(subnet.role)],
    )
    for cidr, association in added.items():
        if subnet.cidr.subnet_of(cidr):
            resource.add_resource_dependency(association)
    routes = ec2.CfnSubnetRouteTableAssociation(
        scope, f"{logical}Routes", subnet_id=resource.ref, route_table_id=route_table_id
    )
    return RoutedSubnet(resource.ref, routes)


def _load_balancer_tags(role: SubnetRole) -> list[cdk.CfnTag]:
    """Return the tags by which the AWS Load Balancer Controller finds its subnets."""
    match role:
        case SubnetRole.PUBLIC:
            return [cdk.CfnTag(key="kubernetes.io/role/elb", value="1")]
        case SubnetRole.CLUSTER:
            return [cdk.CfnTag(key="kubernetes.io/role/internal-elb", value="1")]
        case SubnetRole.STORAGE | SubnetRole.NODES:
            return []
