"""`existing`: resources of yours that the platform uses instead of creating new ones.

`trainway adopt` writes these sections. They describe the resources as they were before the platform was deployed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.sections.fields import Range, S3Uri, ZoneId
from trainway.spec.values import Matches, Section


def _id(prefix: str, what: str) -> Matches:
    return Matches(
        rf"{prefix}-([0-9a-f]{{8}}|[0-9a-f]{{17}})",
        f"it is not the id of a {what}",
        f"write it as in {prefix}-0123456789abcdef0; `trainway adopt` finds it",
    )


class AdoptedSubnet(Section):
    """An existing subnet that the platform uses instead of creating one."""

    id: Annotated[str, _id("subnet", "subnet")] = Field(description="ID of the subnet.")
    zone: ZoneId = Field(description="Availability Zone ID of the subnet.")
    cidr: Range = Field(description="CIDR block of the subnet.")
    free: int = Field(ge=0, description="Number of free addresses in the subnet before the platform was deployed.")


class AdoptedSecurityGroup(Section):
    """An existing security group for the nodes.

    The platform adds the rules that EFA needs and that it does not have.
    """

    id: Annotated[str, _id("sg", "security group")] = Field(description="ID of the security group.")
    from_itself: bool = Field(description="Whether it allows all inbound traffic from itself.")
    to_itself: bool = Field(
        description="Whether it allows all outbound traffic to itself, by a rule that names the group."
    )


class ExistingNetwork(Section):
    """An existing VPC, and the resources in it that the platform uses."""

    vpc_id: Annotated[str, _id("vpc", "VPC")] = Field(description="ID of the VPC.")
    cidrs: tuple[Range, ...] = Field(min_length=1, description="CIDR blocks of the VPC, the primary one first.")
    taken: tuple[Range, ...] = Field(
        (), description="CIDR blocks of all subnets of the VPC. New subnets do not overlap them."
    )
    route_table_id: Annotated[str, _id("rtb", "route table")] | None = Field(
        None, description="Route table of new subnets. In a private network, it must have a route to the internet."
    )
    endpoints: tuple[str, ...] = Field(
        (), description="AWS services that have a VPC endpoint in the VPC, for example [s3, ecr.api]."
    )
    subnets: dict[str, AdoptedSubnet] = Field(
        default_factory=dict,
        description="Your subnets, by the names that `trainway plan` prints. Other subnets are created.",
    )
    security_group: AdoptedSecurityGroup | None = Field(
        None, description="Security group of the nodes. Default: the platform creates one."
    )


class ExistingFileSystem(Section):
    """An existing FSx for Lustre file system in the adopted VPC. The platform never changes it."""

    file_system_id: Annotated[str, _id("fs", "file system")] = Field(description="ID of the file system.")
    dns_name: Annotated[
        str,
        Matches(
            r"fs-[0-9a-f]+\.fsx\.[a-z0-9-]+\.amazonaws\.com(\.cn)?",
            "it is not the DNS name of a file system",
            "write it as in fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com; `trainway adopt` finds it",
        ),
    ] = Field(description="DNS name of the file system.")
    mount_name: Annotated[
        str,
        Matches(r"[A-Za-z0-9_-]{1,8}", "it is not a mount name", "`trainway adopt` finds it"),
    ] = Field(description="Mount name of the file system.")
    capacity_gib: int = Field(ge=1, description="Storage capacity of the file system in GiB.")
    security_group_id: Annotated[str, _id("sg", "security group")] = Field(
        description="Security group of the file system's network interfaces. The platform adds the rules between it "
        "and the nodes."
    )
    associations: dict[str, S3Uri] = Field(
        default_factory=dict,
        description="Directories of the file system that are already linked to S3, for example {/corpus: "
        "s3://bucket/corpus/}.",
    )
