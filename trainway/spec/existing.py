"""A network of yours that the platform moves into: what is there, so that only what is missing is added.

`trainway adopt VPC` writes this section. What it says is how things were before the platform was deployed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.fields import Matches, Range, Section, ZoneId


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
        None, description="What new subnets route by; in a private network its way out is yours."
    )
    endpoints: tuple[str, ...] = Field((), description="The services that it has an endpoint of, as in [s3, ecr.api].")
    subnets: dict[str, AdoptedSubnet] = Field(
        default_factory=dict, description="By the names that `trainway plan` prints: subnets to use; others are made."
    )
    security_group: AdoptedSecurityGroup | None = Field(None, description="For nodes, instead of the platform's own.")
