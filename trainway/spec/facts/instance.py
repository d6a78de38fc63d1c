"""What there is to know about one EC2 instance type, and what follows from it alone."""

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
        """True of the two kinds that are EFA devices."""
        return self is not InterfaceKind.INTERFACE


class CapacityKind(StrEnum):
    """The ways an instance type can be bought; `reservation` is an On-Demand Capacity Reservation."""

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
    """One network interface that a node is launched with, by EC2's own indexes."""

    network_card_index: NonNegativeInt
    device_index: NonNegativeInt
    kind: InterfaceKind


class Accelerator(_Facts):
    """The accelerators of one instance; memory (GiB) and peak rates (TFLOP/s, dense) are of one of them.

    A rate is None where the chip has no such arithmetic, or its vendor publishes no dense rate. `nvlink_domain` counts
    the GPUs that reach each other over NVLink, across instances too; it is None where there is no NVLink. `ranks_each`
    is the training processes that one takes: one a GPU, one a Logical NeuronCore. `mig` has NVIDIA's names of the
    fractions that one can be divided into, with the most of each; it is empty where there are none.
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
        """The Kubernetes resource that the vendor's device plugin counts, which is also the key of its taint."""
        return {"nvidia": "nvidia.com/gpu", "neuron": "aws.amazon.com/neuron"}[self.vendor]

    def fractions(self, profile: str) -> int:
        """How many fractions of a MIG profile all of them can be divided into; 0 where they have no such profile."""
        return self.count * self.mig.get(profile, 0)


class InstanceStore(_Facts):
    """Local NVMe disks; GB is 10^9 bytes."""

    disks: PositiveInt
    gb_each: PositiveInt


class Disagreement(_Facts):
    """Facts of some types for which the catalogue believes another source than EC2's DescribeInstanceTypes.

    `facts` has what EC2 says, by the names that trainway.spec.refresh gives to the facts it compares.
    """

    types: tuple[str, ...]
    facts: Mapping[str, str | int | float | None]
    reason: str


# Which facts one list of sources stands for. Every fact of an Instance is in exactly one group.
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

    `memory_gib` is in GiB, `network_gbps` the sustained bandwidth in Gb/s over all cards. `interfaces` is how a node is
    to be launched, the primary interface first; `primary_card_interfaces` counts what network card 0 can hold.
    `pod_limit` is what EKS allows a node of this many vCPUs. `quota_codes` are EC2's Service Quotas codes, counted in
    vCPUs, by the way of buying; `hyperpod_quota_code` is SageMaker's, counted in instances, and None where nobody tells
    it. `hyperpod_name` is None where HyperPod does not offer the type. `topology_layers` counts the network nodes
    above an instance that EC2 tells, none where it is 0. `sources` has the pages of each of the FACT_GROUPS.
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
        """EFA devices of a node that is launched with `interfaces`."""
        return sum(interface.kind.carries_efa for interface in self.interfaces)

    @property
    def ranks(self) -> int:
        """The training processes of a node; a node without accelerators runs one."""
        return self.accelerator.count * self.accelerator.ranks_each if self.accelerator else 1

    @property
    def devices(self) -> Mapping[str, int]:
        """What a pod that has a node to itself asks for, by the names of Kubernetes resources.

        https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html (read 2026-11-21)
        """
        devices = {self.accelerator.resource: self.accelerator.count} if self.accelerator else {}
        return devices | ({EFA_RESOURCE: self.efa_interfaces} if self.efa_interfaces else {})

    @property
    def hyperpod_quota_name(self) -> str | None:
        """The SageMaker quota, counted in instances.

        https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html, read 2026-11-21
        """
        return f"{self.hyperpod_name} for cluster usage" if self.hyperpod_name else None

    @property
    def published_max_pods(self) -> int:
        """The type's line in AWS's eni-max-pods.txt, which knows neither EKS's limits nor EFA-only interfaces."""
        return self.primary_card_interfaces * (self.ipv4_addresses_per_interface - 1) + _HOST_NETWORK_PODS

    def pod_capacity(self, *, prefix_delegation: bool) -> int:
        """Pods that fit on an EKS node of this type that is launched with `interfaces`.

        The VPC CNI gives pods the addresses of the primary card's interfaces, less each interface's own. An EFA-only
        interface has none and still fills a place on the card: a P5 node holds 51 pods, not eni-max-pods.txt's 100.
        https://github.com/aws/karpenter-provider-aws/blob/main/pkg/providers/instancetype/types.go (ENILimitedPods)
        """
        efa_only = sum(i.network_card_index == 0 and i.kind is InterfaceKind.EFA_ONLY for i in self.interfaces)
        slots = (self.primary_card_interfaces - efa_only) * (self.ipv4_addresses_per_interface - 1)
        addresses = slots * _ADDRESSES_PER_PREFIX if prefix_delegation else slots
        return min(self.pod_limit, addresses + _HOST_NETWORK_PODS)

    @model_validator(mode="after")
    def _interfaces_can_be_launched(self) -> Self:
        """What EC2 would refuse at launch is refused here."""
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
