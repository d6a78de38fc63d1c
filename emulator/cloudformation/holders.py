"""Refuse to delete a network resource that another resource is in or uses, as EC2 does.

moto lets a subnet go while nodes are in it, because it creates no network interfaces for them.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html (DependencyViolation, read 2026-11-22)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from ipaddress import IPv4Network

from emulator.cloudformation.resources import Resource
from emulator.errors import ResourceError

# For each type to delete, the types of resources that hold it if they name it.
HOLDERS = {
    "AWS::EC2::Subnet": {
        "AWS::EC2::NatGateway",
        "AWS::EC2::VPCEndpoint",
        "AWS::EKS::Cluster",
        "AWS::EKS::Nodegroup",
        "AWS::FSx::FileSystem",
        "AWS::SageMaker::Cluster",
    },
    "AWS::EC2::SecurityGroup": {
        "AWS::EC2::VPCEndpoint",
        "AWS::EKS::Cluster",
        "AWS::FSx::FileSystem",
        "AWS::SageMaker::Cluster",
    },
    "AWS::EC2::RouteTable": {"AWS::EC2::SubnetRouteTableAssociation"},
    "AWS::EC2::VPC": {"AWS::EC2::Subnet", "AWS::EC2::VPCEndpoint"},
}
RANGE = "AWS::EC2::VPCCidrBlock"


def refuse_while_in_use(resource: Resource, others: Iterable[Resource]) -> None:
    """Raise ResourceError if one of the other resources holds a resource that is to be deleted."""
    holder = next((each for each in others if each != resource and _holds(each, resource)), None)
    if holder:
        raise ResourceError(
            f"resource {resource.physical_id} has a dependent object, {holder.logical_id} {holder.physical_id} "
            f"({resource.type}: DependencyViolation)"
        )


def _holds(holder: Resource, resource: Resource) -> bool:
    if resource.type == RANGE and holder.type == "AWS::EC2::Subnet" and "CidrBlock" in resource.properties:
        inside = IPv4Network(holder.properties["CidrBlock"]).subnet_of(IPv4Network(resource.properties["CidrBlock"]))
        return inside and holder.properties["VpcId"] == resource.properties["VpcId"]
    return holder.type in HOLDERS.get(resource.type, ()) and f'"{resource.physical_id}"' in json.dumps(
        holder.properties, default=str
    )
