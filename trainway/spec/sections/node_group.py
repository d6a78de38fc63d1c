"""`node_groups`: the nodes that jobs run on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.capacity import Capacity
from trainway.spec.fields import Matches, Name, Section, ZoneId


class NodeGroup(Section):
    """Nodes of one instance type, bought one way, in one zone."""

    name: Name = Field(description="Unique within the file; part of the group's name in AWS.")
    instance_type: str = Field(description="An EC2 instance type of the catalogue, such as p5.48xlarge.")
    count: int = Field(ge=0, description="Nodes that exist right after the deploy.")
    max_count: int | None = Field(
        None, ge=1, description="Nodes the group may grow to; sizes its subnet. Default: count."
    )
    capacity: Capacity = Field("on-demand", description="How the nodes are bought.")
    zone: ZoneId | None = Field(None, description="The zone id of the capacity. Default: the platform's first zone.")
    image_id: (
        Annotated[
            str,
            Matches(
                r"ami-([0-9a-f]{8}|[0-9a-f]{17})",
                "it is not the id of a machine image",
                "write it as in ami-0123456789abcdef0",
            ),
        ]
        | None
    ) = Field(
        None,
        description="An AMI of yours, made from the orchestrator's own. Default: the newest one of AWS's for the type.",
    )
    max_pods: int | None = Field(
        None,
        ge=16,
        description="Pods that a node may run, with the orchestrator eks; sizes its subnet. Default: 32 on accelerated "
        "nodes, 110 on others.",
    )
    root_volume_gib: int = Field(
        500, ge=100, le=16384, description="Root volume in GiB; training images take tens of GiB each."
    )

    @property
    def largest(self) -> int:
        """The most nodes this group can ever have."""
        return max(self.count, self.max_count or 1)
