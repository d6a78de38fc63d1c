"""`node_groups`: the nodes that jobs run on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.sections.capacity import Capacity
from trainway.spec.sections.fields import Name, ZoneId
from trainway.spec.values import Matches, Section


class NodeGroup(Section):
    """Nodes in one Availability Zone with one purchase option.

    They have one instance type, or the first available of several.
    """

    name: Name = Field(description="Name of the node group. Unique within the file.")
    instance_type: str = Field(description="EC2 instance type from the catalogue, for example p5.48xlarge.")
    or_types: tuple[str, ...] = Field(
        (),
        max_length=19,
        description="On Kubernetes, with on-demand or Spot capacity. Instance types to use if instance_type has no "
        "capacity, in order of preference. The same job must fit all of them. On Spot with eks, EKS weighs "
        "prices instead of the order.",
    )
    count: int = Field(
        ge=0, description="Number of nodes after the deploy. With eks and a larger max_count, the fewest nodes."
    )
    min_count: int = Field(
        0,
        ge=0,
        description="Least number of nodes that HyperPod must be able to provide. If it cannot within three hours, "
        "it returns the group to its former size. You do not pay for an incomplete group.",
    )
    max_count: int | None = Field(
        None,
        ge=1,
        description="Most nodes of the group. It decides the size of the subnet. With eks, waiting jobs scale the "
        "group up to it. Default: count.",
    )
    capacity: Capacity = Field("on-demand", description="Purchase option of the nodes.")
    zone: ZoneId | None = Field(
        None,
        description="Zone ID of the capacity: one of `zones`, or with eks a Local Zone of the Region. Default: the "
        "first zone of the platform.",
    )
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
        description="MIG profile of all GPUs of the nodes, for interactive work. Pods get slices of GPUs and no "
        "whole GPUs. Requires the orchestrator eks and `gpu_devices: operator`.",
    )
    image: Name | None = Field(
        None,
        description="Image of the jobs on these nodes that name none: a name of `images`. Default: the image that the "
        "section `image` describes.",
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
        description="ID of your own AMI, which must be derived from the orchestrator's AMI. Default: AWS's newest "
        "AMI for the instance type.",
    )
    image_version: (
        Annotated[
            str,
            Matches(r"\d+\.\d+\.\d+", "it is not a version of HyperPod's image", "write it in full, as in 1.2.3"),
        ]
        | None
    ) = Field(
        None,
        description="On EKS with HyperPod. Version of HyperPod's AMI, for example 1.2.3. A change updates the nodes. "
        "Automatic patching may install a newer version. Default: the newest.",
    )
    max_pods: int | None = Field(
        None,
        ge=16,
        description="With the orchestrator eks. Most pods of a node. It decides the size of the subnet. Default: 32 "
        "on accelerated nodes, 110 on others.",
    )
    root_volume_gib: int = Field(
        500, ge=100, le=16384, description="Size of the root volume in GiB. A training image takes tens of GiB."
    )

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Instance types the group can use, in order of preference."""
        return (self.instance_type, *self.or_types)

    @property
    def largest(self) -> int:
        """The most nodes this group can ever have."""
        return max(self.count, self.max_count or 1)
