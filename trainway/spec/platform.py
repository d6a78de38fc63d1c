"""The platform file as one typed value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from trainway.spec.additions import NO_ADDITIONS, Additions
from trainway.spec.extension import Extension
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.lock import Lock
from trainway.spec.problems import KeyPath
from trainway.spec.sections.accepted import Accepted
from trainway.spec.sections.budget import Budget
from trainway.spec.sections.existing import ExistingCluster
from trainway.spec.sections.fields import Name, Region, ZoneId, is_local_zone
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.iam import Iam
from trainway.spec.sections.image import Image
from trainway.spec.sections.job_secret import JobSecret
from trainway.spec.sections.kubernetes import Kubernetes
from trainway.spec.sections.network import Access, Network, access_from_word
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.observability import Observability
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.sections.run_ai import RunAi
from trainway.spec.sections.slurm import Slurm
from trainway.spec.sections.storage import Storage
from trainway.spec.sections.tags import TagValue
from trainway.spec.sections.team import Team
from trainway.spec.sections.walls import with_default_walls
from trainway.spec.values import Matches, Section

# As many as the largest Region has, us-east-1 (read 2026-11-21):
# https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
MOST_ZONES = 6
# As many as the address plan has places for, and more than an EKS cluster may have without a quota increase.
MOST_NODE_GROUPS = 40


class Platform(Section):
    """Everything that is deployed, as one value."""

    name: Name = Field(
        "trainway",
        description="Name of the platform and prefix of its stacks and cluster. Unique in the account's Region.",
    )
    region: Region = Field(description="AWS Region, for example us-west-2.")
    zones: tuple[ZoneId, ...] = Field(
        min_length=1,
        max_length=MOST_ZONES,
        description="Availability Zone IDs. The first is the zone of the accelerated capacity. With eks, it may be a "
        "Local Zone of the Region, beside two zones of the Region.",
    )
    orchestrator: Orchestrator = Field(
        Orchestrator.EKS, description="Orchestrator of the cluster: eks, hyperpod-eks, or hyperpod-slurm."
    )
    network: Annotated[Network, BeforeValidator(access_from_word, json_schema_input_type=Access | Network)] = Field(
        default_factory=Network, description="The VPC. A single word, private or closed, sets `access`."
    )
    node_groups: tuple[NodeGroup, ...] = Field(
        min_length=1, max_length=MOST_NODE_GROUPS, description="Node groups that jobs run on."
    )
    storage: Storage = Field(default_factory=Storage)
    image: Image = Field(default_factory=Image, description="The training image that jobs use by default.")
    images: dict[Name, Image] = Field(
        default_factory=dict,
        description="Further images by name, each with the keys of `image`, for example {develop: {base: devel}}. "
        "A node group, a job file, or a launch names one.",
    )
    teams: tuple[Team, ...] = Field((), description="Teams that share the nodes.")
    secrets: tuple[JobSecret, ...] = Field((), description="Secrets of AWS Secrets Manager that jobs can read.")
    observability: Observability = Field(default_factory=Observability)
    budget: Budget | None = Field(None, description="Monthly budget of the platform. Default: none.")
    kubernetes: Kubernetes | None = Field(None, description="Only with eks and hyperpod-eks.")
    hyperpod: HyperPod | None = Field(None, description="Only with hyperpod-eks and hyperpod-slurm.")
    slurm: Slurm | None = Field(None, description="Only with hyperpod-slurm.")
    iam: Iam = Field(default_factory=Iam)
    tags: dict[str, TagValue] = Field(
        default_factory=dict,
        description="Tags of all resources that can be tagged while they exist, by name, for example {Team: research}.",
    )
    deletion_protection: bool = Field(
        False,
        description="Refuse to delete the platform: CloudFormation keeps its stacks, and EKS its cluster. To destroy "
        "the platform, set it to false and deploy first. Default: false.",
    )
    accept: tuple[Accepted, ...] = Field(
        (),
        description="Rules about what AWS sells that this platform does not have to satisfy, each with the reason. "
        "docs/rules.md describes them. Default: none.",
    )
    extend: (
        Annotated[
            str,
            Matches(
                r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*|[^\x00]+\.py",
                "it is neither a module nor the path of a Python file",
                "write it as in my_platform.extensions, or as in extensions.py",
            ),
        ]
        | None
    ) = Field(
        None,
        description="Python module, or path of a Python file relative to this one, whose function `extend` adds "
        "stacks or overrides properties. Default: none.",
    )

    @model_validator(mode="before")
    @classmethod
    def _walls_between_teams(cls, document: Any) -> Any:
        return with_default_walls(document)

    # No key of the file: the loader reads it from the file beside it.
    _lock: Lock = PrivateAttr(default_factory=Lock)
    _extension: Extension | None = PrivateAttr(None)
    # By the name of the image.
    _additions: Mapping[str, Additions] = PrivateAttr(default_factory=dict)
    _image_name: str = PrivateAttr(DEFAULT_IMAGE)

    @property
    def lock(self) -> Lock:
        """The lock beside the platform file, which records the decisions of earlier deploys."""
        return self._lock

    def with_lock(self, lock: Lock) -> Platform:
        """Return the platform as it is deployed after what the lock records."""
        platform = self.model_copy()
        platform._lock = lock
        return platform

    @property
    def extension(self) -> Extension | None:
        """The module that `extend` names, once the loader has found it."""
        return self._extension

    def with_extension(self, extension: Extension) -> Platform:
        """Return the platform with the module that `extend` names."""
        platform = self.model_copy()
        platform._extension = extension
        return platform

    @property
    def additions(self) -> Additions:
        """What the image has on its base, once the loader has found it."""
        return self._additions.get(self._image_name, NO_ADDITIONS)

    def with_additions(self, additions: Mapping[str, Additions]) -> Platform:
        """Return the platform with what each image has on its base, by the image's name."""
        platform = self.model_copy()
        platform._additions = additions
        return platform

    @property
    def image_name(self) -> str:
        """The name of the image that `image` is."""
        return self._image_name

    @property
    def image_names(self) -> tuple[str, ...]:
        """The names of all images, the one that jobs use by default first."""
        return (DEFAULT_IMAGE, *self.images)

    def of_image(self, name: str) -> Platform:
        """Return the platform as the image of this name sees it: `image` is its section. Raises KeyError for none."""
        if name == DEFAULT_IMAGE:
            return self
        platform = self.model_copy(update={"image": self.images[name]})
        platform._image_name = name
        return platform

    @property
    def image_groups(self) -> tuple[NodeGroup, ...]:
        """The node groups whose jobs use the image by default. All groups for an image that is the default of none."""
        theirs = tuple(group for group in self.node_groups if (group.image or DEFAULT_IMAGE) == self._image_name)
        return theirs or self.node_groups

    @property
    def region_zones(self) -> tuple[str, ...]:
        """The zones that are no Local Zones: those of the control plane, the endpoints, and the NAT gateway."""
        return tuple(zone for zone in self.zones if not is_local_zone(zone))

    def zone_of(self, group: NodeGroup) -> str:
        """Return the ID of the zone that the nodes of a group are in."""
        return group.zone or self.zones[0]

    @property
    def storage_zone(self) -> str:
        """The ID of the zone of the file systems. Before the first deploy, it is the zone of the first node group."""
        deployed = self.lock.subnets.get("storage")
        return deployed.zone if deployed else self.zone_of(self.node_groups[0])

    @property
    def cluster_name(self) -> str:
        """Return the name of the EKS or HyperPod cluster that jobs are submitted to."""
        adopted = self.adopted_cluster
        return adopted.name if adopted else self.name

    @property
    def kubernetes_version_key(self) -> KeyPath:
        """The key that has the Kubernetes version of the platform's cluster."""
        return ("kubernetes", "existing", "version") if self.adopted_cluster else ("kubernetes", "version")

    @property
    def adopted_cluster(self) -> ExistingCluster | None:
        """Return the existing EKS cluster that the platform uses, or None if it creates one."""
        return self.kubernetes.existing if self.kubernetes else None

    @property
    def kubernetes_or_default(self) -> Kubernetes:
        """The `kubernetes` section, with its defaults where the file leaves it out.

        An adopted cluster has the version that it has.
        """
        if adopted := self.adopted_cluster:
            return cast(Kubernetes, self.kubernetes).model_copy(update={"version": adopted.version})
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
    def pytorch_operator(self) -> bool:
        """Whether the cluster runs Kubeflow's training operator v1, whose jobs are PyTorchJobs."""
        asked = self.kubernetes_or_default.pytorch_operator
        return self.orchestrator is Orchestrator.HYPERPOD_EKS if asked is None else asked

    @property
    def kueue(self) -> bool:
        """Whether Kueue, which the platform installs itself, shares the nodes between the teams."""
        return self._teams_queue_in("kueue")

    @property
    def kai(self) -> bool:
        """Whether the KAI scheduler, which the platform installs itself, shares the nodes between the teams."""
        return self._teams_queue_in("kai")

    @property
    def run_ai(self) -> bool:
        """Return whether Run:ai shares the nodes between the teams."""
        chosen = self.kubernetes_or_default.chosen_queues == "run-ai" and bool(self.teams)
        return chosen and self.orchestrator.is_kubernetes and not self.task_governance

    @property
    def installed_run_ai(self) -> RunAi | None:
        """Return the section `run_ai` if the deploy installs Run:ai's cluster and makes its projects.

        None without Run:ai, and if the owners of the platform install it.
        """
        return self.kubernetes_or_default.run_ai if self.run_ai else None

    def _teams_queue_in(self, queues: str) -> bool:
        return (
            self.orchestrator is Orchestrator.EKS
            and bool(self.teams)
            and self.kubernetes_or_default.chosen_queues == queues
        )

    @property
    def slurm_or_default(self) -> Slurm:
        """The `slurm` section, with its defaults where the file leaves it out."""
        return self.slurm or Slurm()
