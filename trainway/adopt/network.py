"""Looks at a VPC of yours, and describes it as the `network.existing` section of a platform file; changes nothing.

What the platform itself added, if it was deployed already, is left out: a deploy that found its own subnets, endpoints
and rules in the file would take them for yours, and delete them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any

from trainway.preflight.efa_rules import names_itself
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.sections.existing import ExistingNetwork

Response = Mapping[str, Any]
PERMISSIONS = (
    "ec2:DescribeRouteTables, ec2:DescribeSecurityGroups, ec2:DescribeSubnets, ec2:DescribeVpcAttribute, "
    "ec2:DescribeVpcEndpoints and ec2:DescribeVpcs"
)


def look_at_network(
    vpc_id: str,
    *,
    platform: str,
    region: str,
    subnets: Mapping[str, str],
    security_group_id: str | None = None,
    route_table_id: str | None = None,
    known: Iterable[IPv4Network] = (),
) -> ExistingNetwork:
    """Return the section `network.existing` for a VPC as it is now.

    `subnets` maps names of subnets in the platform to the IDs of the VPC's subnets that take their places. `known` are
    the address ranges that the platform file lists already. AWS does not record which ranges a deploy has added.
    Without `route_table_id`, the only table without a route to an internet gateway is used, if there is exactly one.

    Raises UsageError if AWS does not answer, or if a resource does not exist or is in another VPC.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    what = f"{vpc_id} in {region} cannot be looked at"
    try:
        ec2 = boto3.client("ec2", region_name=region)
        here = [{"Name": "vpc-id", "Values": [vpc_id]}]
        (vpc,) = ec2.describe_vpcs(VpcIds=[vpc_id])["Vpcs"]
        found = {subnet["SubnetId"]: subnet for subnet in _all(ec2, "describe_subnets", Filters=here)}
        tables = {table["RouteTableId"]: table for table in _all(ec2, "describe_route_tables", Filters=here)}
        endpoints = list(_all(ec2, "describe_vpc_endpoints", Filters=here))
        group = describe_group(ec2, security_group_id) if security_group_id else None
        _check_resolves_names(ec2, vpc_id)
    except ClientError as error:
        fix = f"name what is there; it needs {PERMISSIONS}"
        raise usage_error(what, why=error.response["Error"]["Message"], fix=fix) from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(what, why=str(error), fix=fix) from None
    theirs = {identifier: subnet for identifier, subnet in found.items() if not _made_by(platform, subnet)}
    _check_are_in_vpc("subnet", subnets.values(), vpc_id, theirs)
    _check_are_in_vpc("route table", [route_table_id] if route_table_id else [], vpc_id, tables)
    if group and group.pop("vpc_id") != vpc_id:
        raise _elsewhere("security group", str(security_group_id), vpc_id, ())
    return ExistingNetwork.model_validate(
        {
            "vpc_id": vpc_id,
            "cidrs": _ranges(vpc, {str(cidr) for cidr in known}, found.values(), theirs.values()),
            "taken": sorted(subnet["CidrBlock"] for subnet in theirs.values()),
            "route_table_id": route_table_id or _only_private_table(tables.values()),
            "endpoints": sorted({_service(e) for e in endpoints if _answers(e) and not _made_by(platform, e)}),
            "subnets": {name: _subnet(theirs[identifier]) for name, identifier in subnets.items()},
            "security_group": group,
        }
    )


def _all(ec2: Any, operation: str, **arguments: Any) -> Iterable[Response]:
    for page in ec2.get_paginator(operation).paginate(**arguments):
        yield from next(value for value in page.values() if isinstance(value, list))


def _check_resolves_names(ec2: Any, vpc_id: str) -> None:
    """Raise UsageError if DNS is off in a VPC."""
    if off := [name for name in ("enableDnsSupport", "enableDnsHostnames") if not _is_on(ec2, vpc_id, name)]:
        why = f"{' and '.join(off)} is off, and nodes find the cluster and the endpoints by name"
        raise usage_error(f"{vpc_id} cannot be adopted", why=why, fix="`aws ec2 modify-vpc-attribute` turns it on")


def _is_on(ec2: Any, vpc_id: str, attribute: str) -> bool:
    answer = ec2.describe_vpc_attribute(VpcId=vpc_id, Attribute=attribute)
    return bool(answer[attribute[0].upper() + attribute[1:]]["Value"])


def _check_are_in_vpc(kind: str, identifiers: Iterable[str], vpc_id: str, there: Collection[str]) -> None:
    """Raise UsageError for a resource that is not one of those of its kind that are in a VPC."""
    for identifier in identifiers:
        if identifier not in there:
            raise _elsewhere(kind, identifier, vpc_id, there)


def _elsewhere(kind: str, identifier: str, vpc_id: str, there: Iterable[str]) -> UsageError:
    fix = f"use one of {', '.join(sorted(there))}" if there else f"use a {kind} of {vpc_id}"
    return usage_error(f"{identifier} cannot be adopted", why=f"it is not a {kind} of {vpc_id}", fix=fix)


def _made_by(platform: str, resource: Response) -> bool:
    """Return whether a deploy of the platform created a resource. The names of these begin with the platform's."""
    return any(tag["Key"] == "Name" and tag["Value"].startswith(f"{platform}/") for tag in resource.get("Tags", []))


def _ranges(vpc: Response, known: set[str], subnets: Iterable[Response], theirs: Iterable[Response]) -> list[str]:
    """Return the VPC's ranges, the primary one first, without those that a deploy added for the platform's subnets."""
    primary = vpc["CidrBlock"]
    others = [
        each["CidrBlock"]
        for each in vpc["CidrBlockAssociationSet"]
        if each["CidrBlock"] != primary and each["CidrBlockState"]["State"] in ("associated", "associating")
    ]
    return [primary, *(cidr for cidr in others if cidr in known or _holds(cidr, theirs) or not _holds(cidr, subnets))]


def _holds(cidr: str, subnets: Iterable[Response]) -> bool:
    return any(IPv4Network(subnet["CidrBlock"]).subnet_of(IPv4Network(cidr)) for subnet in subnets)


def _subnet(subnet: Response) -> dict[str, Any]:
    return {
        "id": subnet["SubnetId"],
        "zone": subnet["AvailabilityZoneId"],
        "cidr": subnet["CidrBlock"],
        "free": subnet["AvailableIpAddressCount"],
    }


def _only_private_table(tables: Iterable[Response]) -> str | None:
    """Return the only route table without a route to an internet gateway, or None if there is not exactly one."""
    private = [
        table["RouteTableId"]
        for table in tables
        if not any(route.get("GatewayId", "").startswith("igw-") for route in table["Routes"])
    ]
    return private[0] if len(private) == 1 else None


def _answers(endpoint: Response) -> bool:
    """Return whether an endpoint answers under the name of its service. Interface endpoints need private DNS."""
    alive = endpoint["State"].lower() in ("available", "pending", "pendingacceptance")
    return alive and (endpoint["VpcEndpointType"] == "Gateway" or bool(endpoint.get("PrivateDnsEnabled")))


def _service(endpoint: Response) -> str:
    """Return the service of an endpoint: `ecr.api` for `com.amazonaws.us-west-2.ecr.api`."""
    return str(endpoint["ServiceName"]).split(".", 3)[-1]


def describe_group(ec2: Any, group_id: str) -> dict[str, Any]:
    """Return a security group's ID, its VPC, and whether it has the two rules that EFA needs."""
    (group,) = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
    return {
        "id": group_id,
        "vpc_id": group["VpcId"],
        "from_itself": names_itself(group["IpPermissions"], group_id),
        "to_itself": names_itself(group["IpPermissionsEgress"], group_id),
    }
