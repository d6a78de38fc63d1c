"""The platform file as typed values: one frozen model a section, each key described once."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from trainway.spec.services import service_facts


def wrong(reason: str, remedy: str) -> PydanticCustomError:
    """A problem with one value, in the words of its rule; the loader adds file, line and key."""
    # Braces would be read as template fields by pydantic.
    return PydanticCustomError("platform", "{reason}", {"reason": reason, "remedy": remedy})


class Section(BaseModel):
    """A part of the file: frozen once read, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _matches(pattern: str, reason: str, remedy: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise wrong(reason, remedy)
        return value

    return AfterValidator(check)


Name = Annotated[
    str,
    Field(json_schema_extra={"pattern": "^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$"}),
    _matches(
        r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?",
        "names become stack, cluster and Kubernetes names, which allow less than this",
        "use up to 30 lower-case letters, digits and hyphens, beginning with a letter",
    ),
]

Region = Annotated[
    str,
    Field(json_schema_extra={"pattern": "^[a-z]{2}(-[a-z]+)+-[0-9]$"}),
    _matches(r"[a-z]{2}(-[a-z]+)+-\d", "it is not the form of an AWS Region's code", "write it as in us-west-2"),
]

ZoneId = Annotated[
    str,
    Field(json_schema_extra={"pattern": "^[a-z]+[0-9]-az[0-9]+$"}),
    _matches(
        r"[a-z]+\d-az\d+",
        "it is not a zone id; zone names such as us-west-2a mean different places in different accounts",
        "write the id, as in usw2-az2; `aws ec2 describe-availability-zones` lists both",
    ),
]


class Orchestrator(StrEnum):
    """Who starts the jobs and keeps the nodes alive."""

    EKS = "eks"
    HYPERPOD_EKS = "hyperpod-eks"
    HYPERPOD_SLURM = "hyperpod-slurm"

    @property
    def is_kubernetes(self) -> bool:
        """True where jobs are Kubernetes objects."""
        return self is not Orchestrator.HYPERPOD_SLURM

    @property
    def is_hyperpod(self) -> bool:
        """True where SageMaker HyperPod owns the accelerated nodes."""
        return self is not Orchestrator.EKS


class Reservation(Section):
    """An On-Demand Capacity Reservation of your account."""

    reservation: Annotated[
        str,
        _matches(
            r"cr-[0-9a-f]{8,17}", "it is not the id of a capacity reservation", "write it as in cr-0123456789abcdef0"
        ),
    ]


class CapacityBlock(Section):
    """An EC2 Capacity Block for ML: accelerated nodes bought for some days ahead of time."""

    capacity_block: Annotated[
        str,
        _matches(
            r"cr-[0-9a-f]{8,17}",
            "it is not the id of a Capacity Block, which is that of its capacity reservation",
            "write it as in cr-0123456789abcdef0",
        ),
    ]


class TrainingPlan(Section):
    """A SageMaker training plan whose target is HyperPod."""

    training_plan: Annotated[
        str,
        _matches(
            r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:training-plan/.+",
            "it is not the ARN of a training plan",
            "write it as in arn:aws:sagemaker:us-west-2:111122223333:training-plan/NAME",
        ),
    ]


_CAPACITY_KEYS = {"reservation", "capacity_block", "training_plan"}


def _capacity_tag(value: Any) -> str | None:
    if isinstance(value, dict) and len(value) == 1:
        key = next(iter(value))
        if key in _CAPACITY_KEYS:
            return str(key)
    if isinstance(value, BaseModel):
        return next(iter(type(value).model_fields))
    if value in ("on-demand", "spot"):
        return "market"
    return None


Capacity = Annotated[
    Annotated[Literal["on-demand", "spot"], Tag("market")]
    | Annotated[Reservation, Tag("reservation")]
    | Annotated[CapacityBlock, Tag("capacity_block")]
    | Annotated[TrainingPlan, Tag("training_plan")],
    Discriminator(
        _capacity_tag,
        custom_error_type="platform",
        custom_error_message="it is not a kind of capacity",
        custom_error_context={
            "remedy": "write on-demand, spot, {reservation: cr-…}, {capacity_block: cr-…} or {training_plan: arn:…}"
        },
    ),
]


def capacity_kind(capacity: Reservation | CapacityBlock | TrainingPlan | str) -> str:
    """How nodes are paid for, as the catalogue spells it: `on-demand`, `spot`, `reservation`, `capacity-block`, …"""
    return capacity if isinstance(capacity, str) else next(iter(type(capacity).model_fields)).replace("_", "-")


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
    root_volume_gib: int = Field(
        500, ge=100, le=16384, description="Root volume in GiB; training images take tens of GiB each."
    )

    @property
    def largest(self) -> int:
        """The most nodes this group can ever have."""
        return max(self.count, self.max_count or 1)


def _parse_range(value: Any) -> IPv4Network:
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        raise wrong("it is not an IPv4 address range", "write it as in 10.0.0.0/16") from None
    if isinstance(value, str) and value != str(network):
        raise wrong("an address range begins at its first address", f"write {network}")
    return network


def _private_range(network: IPv4Network) -> IPv4Network:
    if not network.is_private:
        raise wrong(
            "it is not a private address range", "choose one inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
        )
    low, high = service_facts().vpc.prefix_lengths
    if not low <= network.prefixlen <= high:
        raise wrong(f"a VPC's range is between /{low} and /{high}", "use a /16 unless addresses are scarce")
    return network


class Network(Section):
    """The VPC that is made for the platform."""

    cidr: Annotated[IPv4Network, BeforeValidator(_parse_range), AfterValidator(_private_range)] = Field(
        IPv4Network("10.0.0.0/16"), description="The VPC's address range; ranges for large groups are added to it."
    )
    access: Literal["private"] = Field(
        "private", description="private: nodes have no public address and reach the outside through NAT."
    )


def _throughput(value: int) -> int:
    known = service_facts().lustre.throughputs
    if value not in known:
        raise wrong("FSx for Lustre does not sell this throughput", f"choose one of {', '.join(map(str, known))}")
    return value


S3Uri = Annotated[
    str,
    _matches(
        r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?",
        "it is not an S3 location",
        "write it as in s3://bucket/prefix/",
    ),
]


class Lustre(Section):
    """The FSx for Lustre file system that every node mounts at /fsx."""

    capacity_tib: float = Field(1.2, gt=0, description="Storage in TiB: 1.2, 2.4 and then steps of 2.4.")
    throughput_mbps_per_tib: Annotated[int, AfterValidator(_throughput)] = Field(
        250, description="MB/s per TiB of storage: 125, 250, 500 or 1000."
    )
    efa: bool = Field(False, description="EFA and GPUDirect Storage between nodes and file system.")
    import_from: tuple[S3Uri, ...] = Field(
        (),
        max_length=6,
        description="Existing S3 prefixes of yours, shown below /fsx/import/<bucket> and never written to.",
    )

    @property
    def capacity_gib(self) -> int:
        """Storage in the API's unit: what AWS sells as 1.2 TiB is 1,200 GiB there."""
        return round(self.capacity_tib * 1000)


class Storage(Section):
    """Where data and checkpoints live."""

    lustre: Lustre = Field(default_factory=Lustre, description="The file system beside the nodes.")


class Image(Section):
    """The training image, built on deploy."""

    keep: int = Field(20, ge=1, le=1000, description="Images that the registry keeps; older ones expire.")


Borrow = Annotated[bool, Field(description="May use what other teams leave idle.")]


class Team(Section):
    """A group of people with a share of the nodes."""

    name: Name
    guarantee: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="Instance type to the number of nodes the team can always have."
    )
    borrow: Borrow = True
    priority: Literal["low", "normal", "high"] = Field("normal", description="Who waits when nodes are short.")


class Observability(Section):
    """What is watched, and who hears of it."""

    metrics: Literal["cloudwatch"] = Field("cloudwatch", description="Where metrics and dashboards live.")
    notify: Annotated[
        str | None,
        Field(description="An e-mail address that alarms go to; AWS asks it to confirm once."),
        AfterValidator(lambda value: _email(value) if value is not None else None),
    ] = None


def _email(value: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", value):
        raise wrong("it is not an e-mail address", "write one address, as in ml-oncall@example.com")
    return value


class SystemNodes(Section):
    """The CPU nodes that carry the cluster's own pods."""

    instance_type: str = Field("m7i.2xlarge", description="A CPU instance type of the catalogue.")
    count: int = Field(2, ge=1, description="Nodes; two survive the loss of one.")


class Kubernetes(Section):
    """The EKS cluster, for the orchestrators eks and hyperpod-eks."""

    version: Annotated[
        str, _matches(r"1\.\d\d", "it is not a Kubernetes minor version", 'write it in quotes, as in "1.34"')
    ] = Field("1.34", description="The Kubernetes minor version, in quotes.")
    system_nodes: SystemNodes = Field(default_factory=SystemNodes)
    admins: tuple[
        Annotated[
            str,
            _matches(
                r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+",
                "it is not the ARN of an IAM role or user",
                "write it as in arn:aws:iam::111122223333:role/Admin",
            ),
        ],
        ...,
    ] = Field((), description="IAM roles and users that administer the cluster.")


class HeadNode(Section):
    """A node of the Slurm cluster that runs no jobs."""

    instance_type: str = Field("m7i.2xlarge", description="A CPU instance type of the catalogue.")


class Slurm(Section):
    """The Slurm cluster, for the orchestrator hyperpod-slurm."""

    controller: HeadNode = Field(default_factory=HeadNode, description="Runs slurmctld.")
    login: HeadNode | None = Field(default_factory=HeadNode, description="Where people log in; null for none.")


class Platform(Section):
    """Everything that is deployed, as one value."""

    name: Name = Field("trainway", description="Prefix of every stack and cluster; one platform a name and Region.")
    region: Region = Field(description="The AWS Region.")
    zones: tuple[ZoneId, ...] = Field(min_length=1, max_length=6, description="Zone ids; the capacity's zone first.")
    orchestrator: Orchestrator = Field(Orchestrator.EKS, description="eks, hyperpod-eks or hyperpod-slurm.")
    network: Network = Field(default_factory=Network)
    node_groups: tuple[NodeGroup, ...] = Field(min_length=1, description="The nodes that jobs run on.")
    storage: Storage = Field(default_factory=Storage)
    image: Image = Field(default_factory=Image)
    teams: tuple[Team, ...] = Field((), description="Who shares the nodes.")
    observability: Observability = Field(default_factory=Observability)
    kubernetes: Kubernetes | None = Field(None, description="Only with eks and hyperpod-eks.")
    slurm: Slurm | None = Field(None, description="Only with hyperpod-slurm.")

    def zone_of(self, group: NodeGroup) -> str:
        """The zone id the group's nodes are in."""
        return group.zone or self.zones[0]

    @property
    def kubernetes_or_default(self) -> Kubernetes:
        """The `kubernetes` section, with its defaults where the file leaves it out."""
        return self.kubernetes or Kubernetes()

    @property
    def slurm_or_default(self) -> Slurm:
        """The `slurm` section, with its defaults where the file leaves it out."""
        return self.slurm or Slurm()
