"""The platform file as typed values: one frozen model a section, each key described once."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from trainway.spec.capacity import Capacity
from trainway.spec.existing import ExistingNetwork
from trainway.spec.fields import (
    AddressRange,
    Email,
    LustreThroughput,
    Matches,
    Name,
    Principal,
    Region,
    S3Uri,
    Section,
    ZoneId,
)

# As many as the largest Region has, us-east-1 (read 2026-11-21):
# https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
MOST_ZONES = 6
# As many as the address plan has places for, and more than an EKS cluster may have without a quota increase.
MOST_NODE_GROUPS = 40
# Where every node and every pod finds the file system.
MOUNT_PATH = "/fsx"


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


Access = Literal["private", "closed"]


class Network(Section):
    """The VPC, and its way out."""

    cidr: AddressRange = Field(
        IPv4Network("10.0.0.0/16"),
        description="The address range that subnets are made in: the new VPC's own, or one for an existing VPC.",
    )
    access: Access = Field(
        "private",
        description="private: nodes have no public address and reach the outside through NAT. closed: there is no way "
        "out and none in; docs/closed-network.md says what to bring in before the deploy.",
    )

    existing: ExistingNetwork | None = Field(
        None, description="A VPC of yours to use instead of a new one; `trainway adopt` writes this section."
    )

    @property
    def is_closed(self) -> bool:
        """True where nothing in the VPC reaches the internet, nor the internet anything in the VPC."""
        return self.access == "closed"


def _from_word(value: Any) -> Any:
    return {"access": value} if isinstance(value, str) else value


class Lustre(Section):
    """The FSx for Lustre file system that every node mounts at /fsx."""

    capacity_tib: float = Field(1.2, gt=0, description="Storage in TiB, in the steps that FSx sells.")
    throughput_mbps_per_tib: LustreThroughput = Field(
        250, description="MB/s that each TiB of storage gives; a wrong value is told the ones that exist."
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


# Of a hundred: how much of what is idle a team gets when several want it.
FAIR_SHARE = {"low": 10, "normal": 50, "high": 100}


class Team(Section):
    """A group of people with a share of the nodes."""

    name: Name
    guarantee: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="Instance type to the number of nodes the team can always have."
    )
    borrow: Borrow = True
    priority: Literal["low", "normal", "high"] = Field("normal", description="Who waits when nodes are short.")
    members: tuple[Principal, ...] = Field((), description="IAM roles and users that run jobs in the team's namespace.")

    @property
    def fair_share(self) -> int:
        """How much of what is idle the team gets when several want it, in proportion."""
        return FAIR_SHARE[self.priority]


class Observability(Section):
    """What is watched, and who hears of it."""

    metrics: Literal["cloudwatch"] = Field("cloudwatch", description="Where metrics and dashboards live.")
    notify: Email | None = Field(None, description="An e-mail address that alarms go to; AWS asks it to confirm once.")


class SystemNodes(Section):
    """The CPU nodes that carry the cluster's own pods."""

    instance_type: str = Field("m7i.2xlarge", description="A CPU instance type of the catalogue.")
    count: int = Field(2, ge=1, description="Nodes; two survive the loss of one.")


class Kubernetes(Section):
    """The EKS cluster, for the orchestrators eks and hyperpod-eks."""

    version: Annotated[
        str, Matches(r"1\.\d\d", "it is not a Kubernetes minor version", 'write it in quotes, as in "1.34"')
    ] = Field("1.34", description="The Kubernetes minor version, in quotes.")
    system_nodes: SystemNodes = Field(default_factory=SystemNodes)
    admins: tuple[Principal, ...] = Field((), description="IAM roles and users that administer the cluster.")
    viewers: tuple[Principal, ...] = Field((), description="IAM roles and users that see all and change nothing.")
    queues: Literal["kueue", "none"] = Field(
        "kueue",
        description="What holds jobs until nodes are free, with the orchestrator eks; HyperPod has its own.",
    )
    mpi_operator: bool = Field(False, description="Jobs that mpirun starts, MPIJob v2beta1.")


# The form that the service takes, field by field: CronScheduleExpression in the registry's schema of
# AWS::SageMaker::Cluster, as cfn-lint 1.58.0 carries it (read 2026-11-21).
CRON = (
    r"cron\(([0-5]?[0-9]|) ([01]?[0-9]|2[0-3]) (0?[1-9]|[12][0-9]|3[01]|\?) (0?[1-9]|1[0-2]|\*|\*/([1-9]|1[0-2])|) "
    r"(MON|TUE|WED|THU|FRI|SAT|SUN|[1-7]|\?|L|[1-7]#[1-5]|[1-7]L) (20[2-9][0-9]|\*|)\)"
)


class Patching(Section):
    """When HyperPod brings nodes to a new image, some at a time."""

    schedule: Annotated[
        str,
        Matches(
            CRON,
            "it is not a schedule",
            "write it as in cron(0 3 ? * SUN *): minute, hour, day of the month, month, day of the week, year",
        ),
    ] = Field(description="A cron expression, in UTC.")
    batch: int = Field(1, ge=1, description="Nodes of a group that are updated at a time.")
    wait_minutes: int = Field(15, ge=0, le=60, description="How long a batch is watched before the next one.")
    rollback_alarms: tuple[str, ...] = Field(
        (), max_length=10, description="CloudWatch alarms that take an update back when they ring."
    )


class HyperPod(Section):
    """The HyperPod cluster, for the orchestrators hyperpod-eks and hyperpod-slurm."""

    node_recovery: bool = Field(True, description="Replace or reboot nodes that fail.")
    volume_key: (
        Annotated[
            str,
            Matches(
                r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+",
                "it is not the ARN of a KMS key; a role cannot be let use an alias",
                "write it as in arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            ),
        ]
        | None
    ) = Field(
        None,
        description="The KMS key that encrypts the nodes' volumes, on EKS. Its policy leaves it to IAM who uses it; a "
        "node group that exists cannot change it. Default: a key of AWS's own.",
    )
    deep_health_checks: tuple[Literal["InstanceStress", "InstanceConnectivity"], ...] = Field(
        ("InstanceStress", "InstanceConnectivity"),
        description="What new accelerated nodes go through before they take jobs, on EKS.",
    )
    patching: Patching | None = Field(None, description="Updates of the nodes' image; null: only when you ask for one.")
    checkpoint_memory_percent: int | None = Field(
        None, ge=20, le=100, description="Share of the nodes' memory that holds checkpoints, on EKS; null: none."
    )
    autoscaling: bool = Field(False, description="Karpenter makes and removes nodes of groups by the pods that wait.")
    training_operator: bool = Field(False, description="The HyperPod training operator, an EKS add-on.")
    observability: bool = Field(
        False,
        description="Metrics of nodes, devices, fabric and jobs, an EKS add-on that writes to a workspace of Amazon "
        "Managed Service for Prometheus, made with it; the Grafana that shows them is yours.",
    )
    task_governance: bool | None = Field(
        None, description="Quotas and priorities between teams, an EKS add-on. Default: where the file names teams."
    )


class Iam(Section):
    """What all of the platform's roles have in common."""

    permissions_boundary: (
        Annotated[
            str,
            Matches(
                r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/.+",
                "it is not the ARN of an IAM policy",
                "write it as in arn:aws:iam::111122223333:policy/boundary",
            ),
        ]
        | None
    ) = Field(None, description="The policy that bounds every role that is made.")
    persona_roles: bool = Field(
        False,
        description="A role for administrators, one for viewers and one for each team, which those people assume, "
        "instead of letting them into the cluster themselves. On Kubernetes.",
    )


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
    zones: tuple[ZoneId, ...] = Field(
        min_length=1, max_length=MOST_ZONES, description="Zone ids; the capacity's zone first."
    )
    orchestrator: Orchestrator = Field(Orchestrator.EKS, description="eks, hyperpod-eks or hyperpod-slurm.")
    network: Annotated[Network, BeforeValidator(_from_word, json_schema_input_type=Access | Network)] = Field(
        default_factory=Network, description="The VPC; one word, private or closed, stands for its access."
    )
    node_groups: tuple[NodeGroup, ...] = Field(
        min_length=1, max_length=MOST_NODE_GROUPS, description="The nodes that jobs run on."
    )
    storage: Storage = Field(default_factory=Storage)
    image: Image = Field(default_factory=Image)
    teams: tuple[Team, ...] = Field((), description="Who shares the nodes.")
    observability: Observability = Field(default_factory=Observability)
    kubernetes: Kubernetes | None = Field(None, description="Only with eks and hyperpod-eks.")
    hyperpod: HyperPod | None = Field(None, description="Only with hyperpod-eks and hyperpod-slurm.")
    slurm: Slurm | None = Field(None, description="Only with hyperpod-slurm.")
    iam: Iam = Field(default_factory=Iam)

    def zone_of(self, group: NodeGroup) -> str:
        """The zone id the group's nodes are in."""
        return group.zone or self.zones[0]

    @property
    def kubernetes_or_default(self) -> Kubernetes:
        """The `kubernetes` section, with its defaults where the file leaves it out."""
        return self.kubernetes or Kubernetes()

    @property
    def hyperpod_or_default(self) -> HyperPod:
        """The `hyperpod` section, with its defaults where the file leaves it out."""
        return self.hyperpod or HyperPod()

    @property
    def task_governance(self) -> bool:
        """Whether HyperPod's task governance shares the nodes between the teams."""
        asked = self.hyperpod_or_default.task_governance
        return self.orchestrator is Orchestrator.HYPERPOD_EKS and (bool(self.teams) if asked is None else asked)

    @property
    def kueue(self) -> bool:
        """Whether Kueue, which the platform installs itself, shares the nodes between the teams."""
        return (
            self.orchestrator is Orchestrator.EKS and bool(self.teams) and self.kubernetes_or_default.queues == "kueue"
        )

    @property
    def slurm_or_default(self) -> Slurm:
        """The `slurm` section, with its defaults where the file leaves it out."""
        return self.slurm or Slurm()
