"""The hand-off: the one document in which a deploy tells a launcher everything it needs.

It is a JSON document in one SSM parameter. The stacks write it, the launcher reads it, and both do so through these
models, so that neither guesses a name.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Final = 1


class _Part(BaseModel):
    # A newer deploy may say more than this launcher knows; that is no reason to refuse it.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Association(_Part):
    """A directory of the file system that mirrors an S3 prefix: `s3` has no slash at its end."""

    path: str
    s3: str


class FileSystem(_Part):
    """The FSx for Lustre file system, and where nodes mount it."""

    file_system_id: str
    dns_name: str
    mount_name: str
    mount_path: str
    associations: tuple[Association, ...]


class Cluster(_Part):
    """What jobs are submitted to; `namespaces` are the teams' in Kubernetes, empty under Slurm."""

    name: str
    arn: str
    namespaces: tuple[str, ...]


class Nodes(_Part):
    """A node group as a launcher sees it."""

    name: str
    instance_type: str
    count: int
    max_count: int


class HandOff(_Part):
    """Everything a launcher needs to know about a deployed platform.

    `image_uri` names the training image by the hash of what it is built from; the registry lets no tag move.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    platform: str
    orchestrator: str
    region: str
    bucket: str
    file_system: FileSystem
    image_uri: str
    cluster: Cluster
    node_groups: tuple[Nodes, ...]
    teams: tuple[str, ...]


def parameter_name(platform: str) -> str:
    """The SSM parameter that holds the platform's hand-off."""
    return f"/trainway/{platform}/hand-off"
