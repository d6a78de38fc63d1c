"""`storage`: where data and checkpoints live."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.sections.existing import ExistingFileSystem
from trainway.spec.sections.fields import BucketName, HomeThroughput, KmsKey, LustreThroughput, S3Uri
from trainway.spec.values import Matches, Section

# Where every node and every pod finds the file system, and where a Slurm node finds home directories.
MOUNT_PATH = "/fsx"
HOME_PATH = "/home"
# Directories of the data bucket that appear under the same name in the file system, both ways.
MIRRORED_PREFIXES = ("corpus", "checkpoints", "runs")

OnDestroy = Literal["delete", "keep"]
# Not FSx's own d:HH:MM, which YAML 1.1 reads as a number to the base of 60.
Maintenance = Annotated[
    str,
    Matches(
        r"(mon|tue|wed|thu|fri|sat|sun) ([01]\d|2[0-3]):[0-5]\d",
        "it is not a time of the week",
        "write it as in sun 03:00, in UTC",
    ),
]


class Bucket(Section):
    """The data bucket, which every deploy of this platform finds again by its name."""

    name: BucketName | None = Field(
        None,
        description="The bucket's name, new or one of yours. Default: one made of the platform's name, the account and "
        "the Region, in the account's own namespace.",
    )
    old_versions_days: int = Field(
        30, ge=1, description="Days for which deleted and overwritten objects can be restored."
    )
    old_checkpoints_days: int = Field(
        7, ge=1, description="Days for which deleted and overwritten objects in /checkpoints can be restored."
    )
    access_logs_days: int = Field(90, ge=1, description="Days for which access logs are kept.")


# A client of Lustre, without the network that FSx adds: an address, or ranges in it.
Client = Annotated[
    str,
    Matches(
        r"(?=.{7,39}$)([0-9\[\]\-]+\.){3}[0-9\[\]\-]+",
        "it is neither an address nor a range of addresses of clients",
        "write it as in 10.0.1.6 or 10.0.[2-10].[1-255]",
    ),
]


class RootSquash(Section):
    """Whom root of a client becomes, so that nobody is root on the file system by being root on a node or in a pod.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/root-squash.html (read 2026-11-21)
    """

    uid: int = Field(65534, ge=0, le=4294967294, description="User ID that replaces root's. 0 turns root squash off.")
    gid: int = Field(65534, ge=0, le=4294967294, description="Group ID that replaces root's. 0 turns root squash off.")
    but_not: tuple[Client, ...] = Field(
        (), max_length=64, description="IP addresses of clients without root squash, for example head nodes."
    )


class Backups(Section):
    """Daily backups, which FSx takes of file systems that are not linked to S3."""

    # At most what AutomaticBackupRetentionDays of CreateFileSystem takes, by botocore 1.44's model.
    days: int = Field(7, ge=1, le=90, description="Days for which FSx keeps each backup.")
    hour: int = Field(5, ge=0, le=23, description="Hour of the day (0-23, UTC) in which FSx takes the backup.")


class Lustre(Section):
    """An FSx for Lustre file system that nodes mount at /fsx."""

    generation: int = Field(
        1,
        ge=1,
        le=99,
        description="Number of the file system among those that this platform had. A higher number makes another file "
        "system beside the deployed one, whose section becomes `former_lustre`.",
    )
    storage_class: Literal["ssd", "intelligent-tiering"] = Field(
        "ssd", description="SSD, or the class that grows and shrinks with its contents and cannot be linked to S3."
    )
    capacity_tib: float = Field(1.2, gt=0, description="On SSD: storage in TiB, in the steps that FSx sells.")
    throughput_mbps_per_tib: LustreThroughput = Field(
        250, description="On SSD: MB/s that each TiB of storage gives; a wrong value is told the ones that exist."
    )
    throughput_mbps: int = Field(4000, ge=1, description="With Intelligent-Tiering: MB/s of the file system.")
    read_cache_gib: int | None = Field(
        None, ge=0, description="With Intelligent-Tiering: the SSD cache; 0 for none, null: as the throughput asks for."
    )
    metadata_iops: int | None = Field(
        None, ge=1, description="Metadata operations a second; null: as the capacity asks for, or the least there is."
    )
    efa: bool = Field(False, description="Use EFA between nodes and the file system.")
    compression: bool = Field(True, description="LZ4 compression on the file servers.")
    mirror: bool = Field(
        True, description="Whether /corpus, /checkpoints and /runs mirror the data bucket, both ways, as they change."
    )
    import_from: tuple[S3Uri, ...] = Field(
        (), description="Existing S3 prefixes of yours, shown below /fsx/import/<bucket> and never written to."
    )
    root_squash: RootSquash | None = Field(
        None, description="Root squash for clients. null: unchanged, which is off for a new file system."
    )
    key: KmsKey | None = Field(None, description="The KMS key that encrypts it. Default: the account's key of FSx.")
    backups: Backups | None = Field(None, description="Daily backups, where nothing is linked to S3; null: none.")
    maintenance: Maintenance | None = Field(
        None, description="Weekly 30-minute maintenance window. null: FSx chooses the window."
    )
    nearly_full_percent: int = Field(
        90, ge=1, le=99, description="On SSD: used capacity in percent at which an alarm starts."
    )
    on_destroy: OnDestroy = Field(
        "delete", description="Keep or delete the file system when the platform is destroyed."
    )
    dynamic_volumes: bool = Field(
        False, description="On Kubernetes: a StorageClass that makes a file system of its own for each claim."
    )
    existing: ExistingFileSystem | None = Field(
        None, description="A file system of yours in the adopted VPC, instead of a new one; `trainway adopt` writes it."
    )

    @property
    def is_elastic(self) -> bool:
        """Whether it has no capacity of its own."""
        return self.existing is None and self.storage_class == "intelligent-tiering"

    @property
    def capacity_gib(self) -> int:
        """Storage in the API's unit: what AWS sells as 1.2 TiB is 1,200 GiB there. Not for one that is elastic."""
        return self.existing.capacity_gib if self.existing else round(self.capacity_tib * 1000)

    @property
    def mirrored(self) -> tuple[str, ...]:
        """The prefixes of the data bucket that are to be linked."""
        return MIRRORED_PREFIXES if self.mirror else ()

    @property
    def is_linked(self) -> bool:
        """Whether it is linked to S3, by the platform or before."""
        return bool(self.mirrored or self.import_from or (self.existing and self.existing.associations))


class Home(Section):
    """An FSx for OpenZFS file system that Slurm nodes mount at /home: many small files, and snapshots of them."""

    capacity_gib: int = Field(1024, ge=1, description="SSD storage in GiB; it can grow later.")
    throughput_mbps: HomeThroughput = Field(
        320, description="Throughput in MB/s. The error for a wrong value lists the valid values."
    )
    highly_available: bool = Field(True, description="Add a standby file server in the same zone.")
    key: KmsKey | None = Field(None, description="The KMS key that encrypts it. Default: the account's key of FSx.")
    backups: Backups | None = Field(default_factory=Backups, description="Daily backups; null: none.")
    maintenance: Maintenance | None = Field(
        None, description="Weekly 30-minute maintenance window. null: FSx chooses the window."
    )
    on_destroy: OnDestroy = Field(
        "delete", description="Keep or delete the file system when the platform is destroyed."
    )


class Storage(Section):
    """Where data and checkpoints live."""

    bucket: Bucket = Field(
        default_factory=Bucket, description="The data bucket. It is kept when the platform is destroyed."
    )
    lustre: Lustre = Field(default_factory=Lustre, description="The FSx for Lustre file system that jobs use.")
    former_lustre: Lustre | None = Field(
        None,
        description="The file system that jobs used before, with the settings that it had as `lustre`. It stays and is "
        "billed until you remove this section, which deletes it.",
    )
    home: Home | None = Field(
        None,
        description="Home directories, with hyperpod-slurm; null: those of slurm.users and a directory's users are on "
        "Lustre, others on each node's own disk.",
    )

    @property
    def lustre_by_key(self) -> dict[str, Lustre]:
        """The Lustre file systems by their keys: the one that jobs use first."""
        return {"lustre": self.lustre} | ({"former_lustre": self.former_lustre} if self.former_lustre else {})
