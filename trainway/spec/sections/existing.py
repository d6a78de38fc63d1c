"""What is yours and is used instead of something new: a network, a file system.

`trainway adopt` writes these sections. What it says is how things were before the platform was deployed.
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
    """A subnet that the platform uses instead of making one."""

    id: Annotated[str, _id("subnet", "subnet")] = Field(description="The subnet's id.")
    zone: ZoneId = Field(description="The zone id that it is in.")
    cidr: Range = Field(description="Its range.")
    free: int = Field(ge=0, description="Addresses that were free in it before the platform was deployed.")


class AdoptedSecurityGroup(Section):
    """A security group that stands for the platform's own among nodes; what EFA needs and it lacks is added to it."""

    id: Annotated[str, _id("sg", "security group")] = Field(description="The group's id.")
    from_itself: bool = Field(description="It lets everything in from itself.")
    to_itself: bool = Field(description="It lets everything out to itself, by a rule that names the group.")


class ExistingNetwork(Section):
    """A VPC of yours, and what is in it."""

    vpc_id: Annotated[str, _id("vpc", "VPC")] = Field(description="The VPC's id.")
    cidrs: tuple[Range, ...] = Field(min_length=1, description="The VPC's ranges, the primary one first.")
    taken: tuple[Range, ...] = Field((), description="The ranges of all its subnets: new ones must not overlap them.")
    route_table_id: Annotated[str, _id("rtb", "route table")] | None = Field(
        None, description="Route table of new subnets. In a private network, it must have a route to the internet."
    )
    endpoints: tuple[str, ...] = Field((), description="The services that it has an endpoint of, as in [s3, ecr.api].")
    subnets: dict[str, AdoptedSubnet] = Field(
        default_factory=dict,
        description="Your subnets, by the names that `trainway plan` prints. Other subnets are created.",
    )
    security_group: AdoptedSecurityGroup | None = Field(
        None, description="Security group of the nodes. Default: the platform creates one."
    )


class ExistingFileSystem(Section):
    """An FSx for Lustre file system of yours, in the VPC that the platform moves into. It is never changed."""

    file_system_id: Annotated[str, _id("fs", "file system")] = Field(description="The file system's id.")
    dns_name: Annotated[
        str,
        Matches(
            r"fs-[0-9a-f]+\.fsx\.[a-z0-9-]+\.amazonaws\.com(\.cn)?",
            "it is not the DNS name of a file system",
            "write it as in fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com; `trainway adopt` finds it",
        ),
    ] = Field(description="Its DNS name.")
    mount_name: Annotated[
        str,
        Matches(r"[A-Za-z0-9_-]{1,8}", "it is not a mount name", "`trainway adopt` finds it"),
    ] = Field(description="Its mount name.")
    capacity_gib: int = Field(ge=1, description="Its storage in GiB.")
    security_group_id: Annotated[str, _id("sg", "security group")] = Field(
        description="A security group of its network interfaces; the rules between it and the nodes are added."
    )
    associations: dict[str, S3Uri] = Field(
        default_factory=dict, description="Its directories that are linked to S3 already, such as /corpus."
    )
