"""`existing`: resources of yours that the platform uses instead of creating new ones.

`trainway adopt` writes these sections. They describe the resources as they were before the platform was deployed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.sections.fields import Range, S3Uri, VpcBlock, ZoneId
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
    cidrs: tuple[VpcBlock, ...] = Field(min_length=1, description="CIDR blocks of the VPC, the primary one first.")
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


AdoptedAddonVersion = Annotated[
    str,
    Matches(
        r"v\d+(\.\d+)+-eksbuild\.\d+|self-managed",
        "it is not the version of an EKS add-on",
        "write it as in v1.21.1-eksbuild.1, or self-managed if it is no EKS add-on; `trainway adopt` finds it",
    ),
]
SELF_MANAGED = "self-managed"


class AdoptedCni(Section):
    """Settings of the add-on vpc-cni of an existing cluster."""

    prefix_delegation: bool = Field(False, description="Whether ENABLE_PREFIX_DELEGATION is true.")
    network_policy: bool = Field(False, description="Whether enableNetworkPolicy is true.")


class ExistingCluster(Section):
    """An existing EKS cluster in the adopted VPC. The platform adds to it, and never changes it."""

    name: Annotated[
        str,
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html (read 2026-11-26)
        Matches(
            r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}",
            "it is not the name of an EKS cluster",
            "`aws eks list-clusters` lists yours",
        ),
    ] = Field(description="Name of the cluster.")
    arn: Annotated[
        str,
        Matches(
            r"arn:aws(-[a-z]+)*:eks:[a-z0-9-]+:\d{12}:cluster/[0-9A-Za-z][A-Za-z0-9_-]{0,99}",
            "it is not the ARN of an EKS cluster",
            "`trainway adopt` finds it",
        ),
    ] = Field(description="ARN of the cluster.")
    version: Annotated[
        str, Matches(r"1\.\d\d", "it is not a Kubernetes minor version", 'write it in quotes, as in "1.33"')
    ] = Field(description="Kubernetes minor version of the cluster, in quotes.")
    vpc_id: Annotated[str, _id("vpc", "VPC")] = Field(description="ID of the VPC of the cluster.")
    authentication_mode: Literal["API", "API_AND_CONFIG_MAP", "CONFIG_MAP"] = Field(
        description="Authentication mode of the cluster. CONFIG_MAP allows no access entries, which the platform needs."
    )
    private_access: bool = Field(description="Whether the Kubernetes API answers inside the VPC.")
    endpoint: Annotated[str, Matches(r"https://\S+", "it is not a URL", "`trainway adopt` finds it")] = Field(
        description="URL of the Kubernetes API."
    )
    certificate_authority: Annotated[
        str, Matches(r"(?=(.{4})+$)[A-Za-z0-9+/]+={0,2}", "it is not in base64", "`trainway adopt` finds it")
    ] = Field(description="Certificate authority of the Kubernetes API, in base64.")
    service_cidr: Range = Field(description="CIDR block of the Kubernetes services.")
    security_group: AdoptedSecurityGroup = Field(
        description="Security group that EKS created for the cluster. Nodes and builds are members of it."
    )
    oidc_issuer: str | None = Field(
        None,
        description="URL of the OpenID Connect issuer. The platform uses EKS Pod Identity instead.",
    )
    addons: dict[str, AdoptedAddonVersion] = Field(
        default_factory=dict,
        description="Version of each EKS add-on in the cluster, for example {vpc-cni: v1.21.1-eksbuild.1}, or "
        "self-managed. The platform installs only the others that it needs.",
    )
    cni: AdoptedCni = Field(default_factory=AdoptedCni, description="Settings of the add-on vpc-cni of the cluster.")
    node_groups: tuple[str, ...] = Field(
        (), description="Names of the EKS node groups in the cluster, for your information."
    )
    device_plugins: tuple[Literal["nvidia", "efa", "neuron"], ...] = Field(
        (),
        description="Device plugins of yours that also run on the nodes of the platform, which then installs none of "
        "these.",
    )
    withdraw: bool = Field(
        False,
        description="Uninstall the charts and Kubernetes objects of the platform with the next deploy. "
        "`make destroy` requires it.",
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
    # The smallest that FSx has ever sold.
    capacity_gib: int = Field(ge=1200, description="Storage capacity of the file system in GiB.")
    security_group_id: Annotated[str, _id("sg", "security group")] = Field(
        description="Security group of the file system's network interfaces. The platform adds the rules between it "
        "and the nodes."
    )
    associations: dict[str, S3Uri] = Field(
        default_factory=dict,
        description="Directories of the file system that are already linked to S3, for example {/corpus: "
        "s3://bucket/corpus/}.",
    )
