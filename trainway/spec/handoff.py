"""The hand-off: the one document in which a deploy tells a launcher everything it needs.

An SSM parameter holds at most 8 KB, and a platform with many node groups or teams says more. The document is therefore
an object in S3, and the parameter holds a Pointer: where the object is, and the values that only the deploy knows. The
stacks write both, the launcher reads both, and both do so through these models, so that neither guesses a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from trainway.spec.handoff_names import DEFAULT_IMAGE, NODE_PATH

# Of the document. A deploy of an earlier release put the document itself into the parameter.
SCHEMA_VERSION: Final = 1
POINTER_VERSION: Final = 2
# What stands in the document for a value of the pointer, by the value's position from 0.
PLACEHOLDER: Final = re.compile(r"\$\{(\d+)\}")


class _Part(BaseModel):
    # A newer deploy may say more than this launcher knows; that is no reason to refuse it.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Association(_Part):
    """A directory of the file system that mirrors an S3 prefix: `s3` has no slash at its end."""

    path: str
    s3: str


class FileSystem(_Part):
    """The FSx for Lustre file system, and where nodes mount it; another one beside it needs its subnet and group.

    In Kubernetes a pod mounts it by `claim`, a PersistentVolumeClaim of each namespace. With `team_directories`, it
    mounts only the directory of its namespace, and nothing is linked to the bucket.
    """

    file_system_id: str
    dns_name: str
    mount_name: str
    mount_path: str
    associations: tuple[Association, ...]
    claim: str = "fsx"
    team_directories: bool = False
    subnet_id: str | None = None
    security_group_id: str | None = None


class Checkpoints(_Part):
    """How a job writes a checkpoint to the bucket: on how many prefixes, in parts of how many bytes, how fast a rank.

    What is here by default is what a job does that is told nothing.
    """

    prefixes: int = 1
    part_bytes: int = 8 * 2**20
    gbps_each: int = 10


class Cluster(_Part):
    """The cluster that jobs are submitted to.

    `namespaces` are the teams' namespaces in Kubernetes, and empty under Slurm. The jobs of a team have the labels
    `job_labels`, in which `{team}` stands for the team's name. `job_kinds` are the kinds of Kubernetes objects that an
    operator in the cluster runs, with the default of a launch first. It is empty under Slurm, and in a hand-off from
    before the key existed. `queue` is what shares the nodes between the teams, and "none" if nothing does. It is None
    if only the owner of the cluster knows, under Slurm, and in a hand-off from before the key existed.
    """

    name: str
    arn: str
    namespaces: tuple[str, ...]
    job_labels: Mapping[str, str] = {}
    job_kinds: tuple[str, ...] = ()
    queue: Literal["kueue", "kai", "run-ai", "task governance", "none"] | None = None


class Nodes(_Part):
    """A node group as a launcher sees it.

    A node of `or_types` has the devices of an `instance_type`, so that a launcher which knows that key alone is right.
    In Kubernetes a pod that has a node to itself requests `devices`, by the names of resources, and names the
    ResourceClaimTemplates `claims`; `runtime` is the ClusterTrainingRuntime of its TrainJob. `ranks` is the training
    processes of one job on a node. `image` is the name of the image of jobs that name none; None is the default.

    `most` is the number of nodes that the group has at most until another deploy, and `fixed_by` the key of the
    platform file that keeps it below `max_count`. `team_nodes` is, by team, the number of nodes that the quota of the
    team ever allows. A team that is absent has no such limit. `most` is None in a hand-off from before the key existed.
    """

    name: str
    instance_type: str
    or_types: tuple[str, ...] = ()
    count: int
    max_count: int
    ranks: int | None = None
    devices: Mapping[str, int] = {}
    claims: tuple[str, ...] = ()
    runtime: str | None = None
    image: str | None = None
    most: int | None = None
    fixed_by: str | None = None
    team_nodes: Mapping[str, int] = {}


class TeamShare(_Part):
    """What the platform file guarantees a team, by instance type, and whether the team borrows."""

    name: str
    guarantee: Mapping[str, int] = {}
    borrow: bool = True


class TrainingJobs(_Part):
    """What SageMaker runs training jobs with, beside the cluster: their role, and where in the VPC they are.

    A job of a team has its role in `team_role_arns` if there is one, and otherwise `role_arn`.
    `subnet_ids` has the subnet of each node group, by the group's name.
    """

    role_arn: str
    team_role_arns: Mapping[str, str] = {}
    subnet_ids: Mapping[str, str]
    security_group_ids: tuple[str, ...]


class TeamData(_Part):
    """Prefixes of the bucket: those that a team can write to, and those that it can only read."""

    own: tuple[str, ...]
    shared: tuple[str, ...] = ()


class Deployer(_Part):
    """The version of Trainway that deployed, and the SHA-256 of the platform's extension if it has one."""

    version: str
    extension: str | None = None


class HandOff(_Part):
    """Everything a launcher needs to know about a deployed platform.

    `image_uri` names the training image by the hash of what it is built from; the registry lets no tag move. The
    SSM parameter `image_parameter` has the BuiltImage once it is built, which nothing else waits for. `images` has the
    same of the platform's further images, by their names: the parameter of each is image_parameter_name's. `team_data`
    is empty if all teams share all prefixes of the bucket. `metrics_workspace` is the alias of the workspace in which
    an AWS managed collector or Slurm's controller stores metrics, or None without either. Without a `file_system`, jobs
    keep everything in the bucket.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    platform: str
    orchestrator: str
    region: str
    bucket: str
    file_system: FileSystem | None = None
    checkpoints: Checkpoints = Checkpoints()
    image_uri: str
    image_parameter: str | None = None
    images: Mapping[str, str] = {}
    cluster: Cluster
    node_groups: tuple[Nodes, ...]
    teams: tuple[str, ...]
    team_shares: tuple[TeamShare, ...] = ()
    team_data: Mapping[str, TeamData] = {}
    training_jobs: TrainingJobs | None = None
    metrics_workspace: str | None = None
    # Of the pointer, and so in no document: a new version changes the parameter and nothing else.
    trainway: Deployer | None = None

    @property
    def mounted(self) -> FileSystem:
        """Return the file system that jobs mount. Raises LookupError for a platform without one."""
        if self.file_system is None:
            raise LookupError("the platform has no file system: its jobs keep everything in the data bucket")
        return self.file_system

    @property
    def mount_path(self) -> str:
        """Return where a node has the directories of runs: on the file system, or on its own disk without one."""
        return self.file_system.mount_path if self.file_system else NODE_PATH

    @property
    def image_uris(self) -> dict[str, str]:
        """Return the URI of each image of the platform by its name, the one that jobs use by default first."""
        return {DEFAULT_IMAGE: self.image_uri, **self.images}


class Pointer(_Part):
    """What the hand-off's SSM parameter holds.

    `bucket` and `key` are of the S3 object with the document. In the document's strings, `${0}` stands for the first of
    `values`, `${1}` for the second, and so on. `trainway` is absent from what was deployed before 0.1.0.
    """

    schema_version: Literal[2] = POINTER_VERSION
    bucket: str
    key: str
    values: tuple[str, ...]
    trainway: Deployer | None = None


def fill(document: str, values: Sequence[str]) -> str:
    """Return a document (JSON) with a pointer's values in place of the placeholders.

    Raises ValueError if the document is not JSON, or has a placeholder for which there is no value.
    """
    return json.dumps(_filled(json.loads(document), values))


def _filled(node: Any, values: Sequence[str]) -> Any:
    if isinstance(node, dict):
        return {key: _filled(each, values) for key, each in node.items()}
    if isinstance(node, list):
        return [_filled(each, values) for each in node]
    return PLACEHOLDER.sub(lambda found: _value(int(found[1]), values), node) if isinstance(node, str) else node


def _value(number: int, values: Sequence[str]) -> str:
    if number >= len(values):
        raise ValueError(f"the document needs value {number}, and the parameter has {len(values)}")
    return values[number]


class BuiltImage(_Part):
    """The training image: its `uri` as in the hand-off, and `pinned`, the same by the digest that it was given.

    `packages` is the day of the Ubuntu snapshot that its packages are from, or None if it follows no snapshot. `bill`
    is the s3:// address of the SPDX document of its packages. None from a deploy that kept none. `signer` is the ARN of
    the signing profile that ECR signs it with, or None if the platform has it not signed.
    """

    uri: str
    pinned: str
    bill: str | None = None
    packages: date | None = None
    signer: str | None = None


class ChosenImage(_Part):
    """An image that somebody chose in place of the one that was built last.

    `instead_of` is the `pinned` of the BuiltImage that it takes the place of: when a deploy builds another one, the
    choice has no effect any more. `because` says where the image is from.
    """

    pinned: str
    instead_of: str
    because: str
