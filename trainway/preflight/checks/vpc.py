"""The VPC of yours that the platform uses."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error

ALIVE = ("available", "pending")


@check("ec2:DescribeVpcs", "ec2:DescribeVpcAttribute", "ec2:DescribeVpcEndpoints")
def vpc(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The adopted VPC exists, is of default tenancy, resolves names, and has the endpoints of the file."""
    existing, aws = inquiry.platform.network.existing, inquiry.aws
    if existing is None:
        return
    identifier = existing.vpc_id
    described = aws.ask("ec2", "describe_vpcs", VpcIds=[identifier], absent=["InvalidVpcID.NotFound"])
    if described is None:
        yield error(
            f"there is no VPC {identifier}",
            why=f"EC2 lists none with this ID for account {aws.number} in {aws.region}",
            fix="`aws ec2 describe-vpcs` lists those that you can use",
            key=("network", "existing", "vpc_id"),
        )
        return
    # No reservation, Capacity Block, or training plan has instances of another tenancy, and they cost more.
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/dedicated-instance.html (read 2026-11-30)
    if (tenancy := described["Vpcs"][0].get("InstanceTenancy", "default")) != "default":
        yield error(
            f"{identifier} is of the tenancy {tenancy}",
            why="every node in it would be a Dedicated Instance, which uses no reserved capacity and costs more",
            fix=f"aws ec2 modify-vpc-tenancy --region {aws.region} --vpc-id {identifier} --instance-tenancy default; "
            "instances that run keep theirs",
            key=("network", "existing", "vpc_id"),
        )
    for attribute in ("enableDnsSupport", "enableDnsHostnames"):
        answer = aws.ask("ec2", "describe_vpc_attribute", VpcId=identifier, Attribute=attribute) or {}
        if not answer[attribute[0].upper() + attribute[1:]]["Value"]:
            option = "--enable-dns-support" if attribute == "enableDnsSupport" else "--enable-dns-hostnames"
            yield error(
                f"{attribute} of {identifier} is off",
                why="nodes find the cluster, the file system, and the endpoints by name",
                fix=f"aws ec2 modify-vpc-attribute --region {aws.region} --vpc-id {identifier} {option}",
                key=("network", "existing", "vpc_id"),
            )
    here = [{"Name": "vpc-id", "Values": [identifier]}]
    pages = aws.pages("ec2", "describe_vpc_endpoints", Filters=here)
    alive = {
        str(each["ServiceName"]).split(".", 3)[-1]
        for page in pages
        for each in page["VpcEndpoints"]
        if each["State"].lower() in ALIVE
    }
    for index, service in enumerate(existing.endpoints):
        if service not in alive:
            yield error(
                f"{identifier} has no endpoint of {service}",
                why="the file says that it has one, so that the deploy creates none",
                fix="remove it from `endpoints`, so that the deploy creates it",
                key=("network", "existing", "endpoints", index),
            )
