"""A VPC that somebody made before the platform came."""

from __future__ import annotations

from typing import Any

Ids = dict[str, str]


def make_vpc(ec2: Any) -> Ids:
    """A VPC with subnets in two zones, a public and a private route table, S3's endpoint, and a security group."""
    region = ec2.meta.region_name
    vpc = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    ec2.associate_vpc_cidr_block(VpcId=vpc, CidrBlock="10.21.0.0/16")
    zones = {z["ZoneId"]: z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]}
    ids = {"vpc": vpc}
    for number, (name, zone) in enumerate(
        [("public", "usw2-az2"), ("nodes", "usw2-az2"), ("cluster-0", "usw2-az2"), ("cluster-1", "usw2-az1")]
    ):
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.20.{16 * number}.0/20", AvailabilityZone=zones[zone])
        ids[name] = made["Subnet"]["SubnetId"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    (main,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    ec2.create_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ids["private"] = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_vpc_endpoint(
        VpcId=vpc, ServiceName=f"com.amazonaws.{region}.s3", VpcEndpointType="Gateway", RouteTableIds=[ids["private"]]
    )
    ids["group"] = ec2.create_security_group(GroupName="efa", Description="nodes", VpcId=vpc)["GroupId"]
    return ids
