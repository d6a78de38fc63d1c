"""`node_groups`: the nodes that jobs run on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.sections.capacity import Capacity
from trainway.spec.sections.fields import Name, ZoneId
from trainway.spec.values import Matches, Section


class NodeGroup(Section):
    """Nodes of one instance type, or of the first of several that is to be had, bought one way, in one zone."""

    name: Name = Field(description="Unique within the file; part of the group's name in AWS.")
    instance_type: str = Field(description="An EC2 instance type of the catalogue, such as p5.48xlarge.")
    or_types: tuple[str, ...] = Field(
        (),
        max_length=19,
        description="What to take, in this order, where there is no capacity of instance_type: types that the same job "
        "fits on. On Kubernetes, on demand or on Spot, where EKS itself weighs prices instead.",
    )
    count: int = Field(
        ge=0, description="Number of nodes after the deploy. With eks and a larger max_count, the fewest nodes."
    )
    min_count: int = Field(
        0,
        ge=0,
        description="Of these, how many must come for HyperPod to keep any: where it cannot get as many within three "
        "hours, the group goes back to what it was, a new one to none, and nobody pays for a part of a job's nodes.",
    )
    max_count: int | None = Field(
        None,
        ge=1,
        description="Nodes the group may grow to; sizes its subnet. With eks, waiting jobs raise the group to it. "
        "Default: count.",
    )
    capacity: Capacity = Field("on-demand", description="Purchase option of the nodes.")
    zone: ZoneId | None = Field(None, description="The zone id of the capacity. Default: the platform's first zone.")
    mig: (
        Annotated[
            str,
            Matches(
                r"\d+g\.\d+gb",
                "it is not the form of a MIG profile",
                "write it as in 1g.10gb: slices of a GPU and their memory",
            ),
        ]
        | None
    ) = Field(
        None,
        description="The MIG profile that all GPUs of the nodes are divided by, for interactive work: pods then get "
        "fractions, and no whole GPU. With the orchestrator eks and gpu_devices: operator.",
    )
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
    image_version: (
        Annotated[
            str,
            Matches(r"\d+\.\d+\.\d+", "it is not a version of HyperPod's image", "write it in full, as in 1.2.3"),
        ]
        | None
    ) = Field(
        None,
        description="The version of HyperPod's image, on EKS, such as 1.2.3; another one here updates the nodes, and "
        "patches may go beyond it. Default: the newest.",
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
    def instance_types(self) -> tuple[str, ...]:
        """Instance types the group can use, in order of preference."""
        return (self.instance_type, *self.or_types)

    @property
    def largest(self) -> int:
        """The most nodes this group can ever have."""
        return max(self.count, self.max_count or 1)
