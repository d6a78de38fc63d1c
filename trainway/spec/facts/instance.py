"""Facts about one EC2 instance type, and values derived from these facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

EFA_RESOURCE = "vpc.amazonaws.com/efa"


class InterfaceKind(StrEnum):
    """EC2's names for what a network interface carries: IP, IP and EFA, or EFA alone (which takes no address)."""

    INTERFACE = "interface"
    EFA = "efa"
    EFA_ONLY = "efa-only"

    @property
    def carries_efa(self) -> bool:
        """Return whether the interface is an EFA device."""
        return self is not InterfaceKind.INTERFACE


class CapacityKind(StrEnum):
    """The ways to buy an instance type. `reservation` is an On-Demand Capacity Reservation."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    CAPACITY_BLOCK = "capacity-block"
    TRAINING_PLAN = "training-plan"


QuotaCode = Annotated[str, StringConstraints(pattern=r"^L-[0-9A-F]{8}$")]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Facts):
    """A published page and the day it was read."""

    url: str
    title: str
    read: date


class NetworkInterface(_Facts):
    """One network interface of a node at launch, by EC2's own indexes."""

    network_card_index: NonNegativeInt
    device_index: NonNegativeInt
    kind: InterfaceKind


class Accelerator(_Facts):
    """The accelerators of one instance. Memory (GiB) and peak rates (dense TFLOP/s) are those of one accelerator.

    A rate is None if the chip does not support the type, or its vendor publishes no dense rate. `nvlink_domain` counts
    the GPUs connected by NVLink, across instances too. It is None without NVLink. `ranks_each` is the number of
    training processes per accelerator: one per GPU, one per Logical NeuronCore. `mig` has NVIDIA's names of the
    fractions into which one GPU can be divided, with the maximum number of each. It is empty without MIG.
    """

    vendor: Literal["nvidia", "neuron"]
    name: str
    count: PositiveInt
    memory_gib: PositiveInt
    bf16_tflops: PositiveFloat | None
    fp8_tflops: PositiveFloat | None
    nvlink_domain: PositiveInt | None = None
    ranks_each: PositiveInt = 1
    mig: Mapping[str, PositiveInt] = {}

    @property
    def resource(self) -> str:
        """Return the Kubernetes resource that the vendor's device plugin counts, which is also the key of its taint."""
        return {"nvidia": "nvidia.com/gpu", "neuron": "aws.amazon.com/neuron"}[self.vendor]

    def fractions(self, profile: str) -> int:
        """Return the number of fractions of a MIG profile that all accelerators have together, or 0."""
        return self.count * self.mig.get(profile, 0)


class InstanceStore(_Facts):
    """Local NVMe disks. A GB is 10^9 bytes."""

    disks: PositiveInt
    gb_each: PositiveInt


class Disagreement(_Facts):
    """Facts of some types for which the catalogue uses another source than EC2's DescribeInstanceTypes.

    `facts` has EC2's values, by the names that trainway.spec.refresh gives to the facts it compares.
    """

    types: tuple[str, ...]
    facts: Mapping[str, str | int | float | None]
    reason: str


# Facts that one list of sources covers. Every fact of an Instance is in exactly one group.
FACT_GROUPS: Mapping[str, tuple[str, ...]] = {
    "compute": ("architecture", "vcpus", "memory_gib"),
    "accelerator": ("accelerator",),
    "storage": ("instance_store",),
    "network": ("network_gbps", "network_cards", "primary_card_interfaces", "ipv4_addresses_per_interface"),
    "layout": ("interfaces",),
    "pods": ("pod_limit",),
    "capacity": ("capacity_kinds",),
    "quota": ("quota_codes",),
    "hyperpod": ("hyperpod_name", "hyperpod_quota_code"),
    "topology": ("topology_layers",),
}

# A prefix that the VPC CNI assigns is a /28. https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html
_ADDRESSES_PER_PREFIX = 16
# aws-node and kube-proxy use the host's network. https://github.com/aws/amazon-vpc-cni-k8s/blob/master/misc/eni-max-pods.txt
_HOST_NETWORK_PODS = 2


class Instance(_Facts):
    """An EC2 instance type.

    `memory_gib` is in GiB, and `network_gbps` is the sustained bandwidth in Gb/s over all cards. `interfaces` are the
    interfaces at launch, primary first. `primary_card_interfaces` is the maximum on network card 0. `pod_limit` is
    EKS's limit for a node of this number of vCPUs. `quota_codes` are EC2's Service Quotas codes, counted in vCPUs, by
    the way of buying. `hyperpod_quota_code` is SageMaker's, counted in instances, and None if it is not published.
    `hyperpod_name` is None if HyperPod does not offer the type. `topology_layers` is the number of network nodes above
    an instance that EC2 reports, or 0. `sources` has the pages of each of the FACT_GROUPS.
    """

    name: str
    architecture: Literal["x86_64", "arm64"]
    vcpus: PositiveInt
    memory_gib: PositiveInt
    accelerator: Accelerator | None
    instance_store: InstanceStore | None
    network_gbps: PositiveFloat
    network_cards: PositiveInt
    primary_card_interfaces: PositiveInt
    ipv4_addresses_per_interface: PositiveInt
    interfaces: tuple[NetworkInterface, ...]
    pod_limit: PositiveInt
    capacity_kinds: tuple[CapacityKind, ...]
    quota_codes: Mapping[CapacityKind, QuotaCode]
    hyperpod_name: str | None
    hyperpod_quota_code: QuotaCode | None
    topology_layers: NonNegativeInt
    sources: Mapping[str, tuple[Source, ...]]

    @property
    def efa_interfaces(self) -> int:
        """Return the number of EFA devices of a node that is launched with `interfaces`."""
        return sum(interface.kind.carries_efa for interface in self.interfaces)

    @property
    def ranks(self) -> int:
        """Return the number of training processes of a node. A node without accelerators runs one."""
        return self.accelerator.count * self.accelerator.ranks_each if self.accelerator else 1

    @property
    def devices(self) -> Mapping[str, int]:
        """Return the devices that a pod requests if it has a node to itself, by Kubernetes resource name.

        https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html (read 2026-11-21)
        """
        devices = {self.accelerator.resource: self.accelerator.count} if self.accelerator else {}
        return devices | ({EFA_RESOURCE: self.efa_interfaces} if self.efa_interfaces else {})

    @property
    def hyperpod_quota_name(self) -> str | None:
        """Return the name of the SageMaker quota, counted in instances.

        https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html, read 2026-11-21
        """
        return f"{self.hyperpod_name} for cluster usage" if self.hyperpod_name else None

    @property
    def published_max_pods(self) -> int:
        """Return the type's value in AWS's eni-max-pods.txt, which ignores EKS's limits and EFA-only interfaces."""
        return self.primary_card_interfaces * (self.ipv4_addresses_per_interface - 1) + _HOST_NETWORK_PODS

    def pod_capacity(self, *, prefix_delegation: bool) -> int:
        """Return the number of pods that fit on an EKS node of this type that is launched with `interfaces`.

        The VPC CNI gives pods the addresses of the primary card's interfaces, except each interface's own. An EFA-only
        interface has no addresses, but counts as an interface of the card: a P5 node holds 51 pods, not
        eni-max-pods.txt's 100.
        https://github.com/aws/karpenter-provider-aws/blob/main/pkg/providers/instancetype/types.go (ENILimitedPods)
        """
        efa_only = sum(i.network_card_index == 0 and i.kind is InterfaceKind.EFA_ONLY for i in self.interfaces)
        slots = (self.primary_card_interfaces - efa_only) * (self.ipv4_addresses_per_interface - 1)
        addresses = slots * _ADDRESSES_PER_PREFIX if prefix_delegation else slots
        return min(self.pod_limit, addresses + _HOST_NETWORK_PODS)

    @model_validator(mode="after")
    def _interfaces_can_be_launched(self) -> Self:
        """Refuse interfaces that EC2 would refuse at launch."""
        indexes = [(i.network_card_index, i.device_index) for i in self.interfaces]
        efa_cards = [i.network_card_index for i in self.interfaces if i.kind.carries_efa]
        if indexes[:1] != [(0, 0)] or self.interfaces[0].kind is InterfaceKind.EFA_ONLY:
            raise ValueError("the first interface must be at card 0, device 0, and have an address")
        if len(set(indexes)) < len(indexes) or len(set(efa_cards)) < len(efa_cards):
            raise ValueError("a device index of a network card holds one interface, and a card one EFA interface")
        if max(card for card, _ in indexes) >= self.network_cards:
            raise ValueError(f"an interface is on a card that the type, with {self.network_cards}, does not have")
        if sum(card == 0 for card, _ in indexes) > self.primary_card_interfaces:
            raise ValueError(f"network card 0 holds {self.primary_card_interfaces} interfaces")
        return self
