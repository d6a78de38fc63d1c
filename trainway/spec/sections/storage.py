"""`storage`: where data and checkpoints live."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trainway.spec.sections.existing import ExistingFileSystem
from trainway.spec.sections.fields import BucketName, DataPrefix, HomeThroughput, KmsKey, LustreThroughput, S3Uri
from trainway.spec.values import Matches, Section, wrong

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
    """The data bucket. Every deploy of the platform finds it by its name."""

    name: BucketName | None = Field(
        None,
        description="Name of a new bucket, or of an existing one of yours. Default: a name from the platform, the "
        "account, and the Region, in the account's own namespace.",
    )
    old_versions_days: int = Field(
        30,
        ge=1,
        description="Days for which deleted and overwritten objects can be restored, access logs among them. S3 calls "
        "them noncurrent versions. A lower number applies to objects that are there, too.",
    )
    old_checkpoints_days: int = Field(
        7,
        ge=1,
        description="Days for which deleted and overwritten objects in /checkpoints can be restored, at most "
        "old_versions_days.",
    )
    access_logs_days: int = Field(90, ge=1, description="Days for which access logs are kept.")
    key: KmsKey | None = Field(
        None,
        description="ARN of the KMS key that encrypts new objects. Its key policy must delegate permissions to IAM, "
        "and let FSx use it. Default: a key of S3's own.",
    )
    team_prefixes: bool = Field(
        False,
        description="Limit the jobs and the people of each team to the prefixes corpus/TEAM, checkpoints/TEAM, and "
        "runs/TEAM, and to the prefixes in `teams[].data`. Default: true on a platform with several teams. With "
        "false, all teams share all prefixes.",
    )
    shared: tuple[DataPrefix, ...] = Field(
        (),
        description="Prefixes that all teams can read, for example corpus/web. Only for a bucket with team_prefixes.",
    )


def _octets(client: str) -> str:
    for part in client.split("."):
        low, _, high = part.strip("[]").partition("-")
        if not low.isdecimal() or not (high or low).isdecimal() or not int(low) <= int(high or low) <= 255:
            raise wrong(f"{part} is no number from 0 to 255, and no range of them", "write it as in 10.0.[2-10].6")
    return client


# A client of Lustre, without the network that FSx adds: an address, or ranges in it.
Client = Annotated[
    str,
    Matches(
        r"(?=.{7,39}$)([0-9\[\]\-]+\.){3}[0-9\[\]\-]+",
        "it is neither an address nor a range of addresses of clients",
        "write it as in 10.0.1.6 or 10.0.[2-10].[1-255]",
    ),
    AfterValidator(_octets),
]


class RootSquash(Section):
    """`root_squash`: user and group that replace root of a client on the file system."""

    uid: int = Field(65534, ge=0, le=4294967294, description="User ID that replaces root's. 0 turns root squash off.")
    gid: int = Field(65534, ge=0, le=4294967294, description="Group ID that replaces root's. 0 turns root squash off.")
    but_not: tuple[Client, ...] = Field(
        (), max_length=64, description="IP addresses of clients without root squash, for example head nodes."
    )


class Backups(Section):
    """Daily backups of FSx. Only for file systems that are not linked to S3."""

    # At most what AutomaticBackupRetentionDays of CreateFileSystem takes, by botocore 1.44's model.
    days: int = Field(7, ge=1, le=90, description="Days for which FSx keeps each backup.")
    hour: int = Field(5, ge=0, le=23, description="Hour of the day (0-23, UTC) in which FSx takes the backup.")


# The API's StorageCapacity is a number of GiB in 32 bits. https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html
# (read 2026-11-30)
MOST_TIB = (2**31 - 1) // 1000


class Lustre(Section):
    """An FSx for Lustre file system that nodes mount at /fsx."""

    generation: int = Field(
        1,
        ge=1,
        le=99,
        description="Number of the file system among those that the platform has had. A higher number creates "
        "another file system beside the deployed one, whose section becomes `former_lustre`.",
    )
    storage_class: Literal["ssd", "scratch", "intelligent-tiering"] = Field(
        "ssd",
        description="ssd; scratch, which costs less, and loses files when a file server fails; or intelligent-tiering, "
        "which grows and shrinks with its contents and cannot be linked to S3.",
    )
    capacity_tib: float = Field(
        1.2,
        gt=0,
        le=MOST_TIB,
        description="On ssd and scratch. Storage capacity in TiB, for example 4.8. FSx sells it in steps.",
    )
    throughput_mbps_per_tib: LustreThroughput = Field(
        250,
        description="On SSD. Throughput in MB/s for each TiB of storage. The error for a wrong value lists the valid "
        "values.",
    )
    throughput_mbps: int = Field(
        4000, ge=1, description="With Intelligent-Tiering. Throughput of the file system in MB/s."
    )
    read_cache_gib: int | None = Field(
        None,
        ge=0,
        description="With Intelligent-Tiering. Size of the SSD read cache in GiB. 0 turns it off. null: in "
        "proportion to the throughput.",
    )
    metadata_iops: int | None = Field(
        None, ge=1, description="Metadata operations per second. null: in proportion to the capacity, or the minimum."
    )
    efa: bool = Field(False, description="Use EFA between nodes and the file system.")
    compression: bool = Field(True, description="LZ4 compression on the file servers.")
    mirror: bool = Field(
        True,
        description="Whether the directories /corpus, /checkpoints, and /runs and the same prefixes of the data "
        "bucket mirror each other. Default: true, but false on Kubernetes on a platform with several teams, unless "
        "team_directories is false.",
    )
    import_from: tuple[S3Uri, ...] = Field(
        (),
        description="Existing S3 prefixes of yours. They are readable below /fsx/import/<bucket> and never written to.",
    )
    root_squash: RootSquash | None = Field(
        None, description="Root squash for clients. null: unchanged, which is off for a new file system."
    )
    key: KmsKey | None = Field(
        None,
        description="ARN of the KMS key that encrypts the file system. Default: the account's AWS managed key of FSx.",
    )
    backups: Backups | None = Field(
        None, description="Daily backups. Only if nothing is linked to S3. null: no backups."
    )
    maintenance: Maintenance | None = Field(
        None, description="Weekly 30-minute maintenance window. null: FSx chooses the window."
    )
    nearly_full_percent: int = Field(
        90, ge=1, le=99, description="On ssd and scratch: used capacity in percent at which an alarm starts."
    )
    on_destroy: OnDestroy = Field(
        "delete", description="Keep or delete the file system when the platform is destroyed."
    )
    team_directories: bool = Field(
        False,
        description="On Kubernetes. Limit the jobs of each team to the directory teams/TEAM of the file system, which "
        "they mount as /fsx. Requires storage.bucket.team_prefixes. Default: true on a platform whose teams have "
        "prefixes, and that has several. With false, all teams mount the whole file system.",
    )
    dynamic_volumes: bool = Field(
        False,
        description="On Kubernetes. Install a StorageClass that creates a file system for each PersistentVolumeClaim.",
    )
    existing: ExistingFileSystem | None = Field(
        None,
        description="An existing file system in the adopted VPC, used instead of a new one. `trainway adopt` writes "
        "this section.",
    )

    @property
    def is_elastic(self) -> bool:
        """Whether the file system has no fixed capacity."""
        return self.existing is None and self.storage_class == "intelligent-tiering"

    @property
    def is_scratch(self) -> bool:
        """Whether the file system has no copies of what it holds, and no settings but its capacity."""
        return self.existing is None and self.storage_class == "scratch"

    @property
    def capacity_gib(self) -> int:
        """Storage in the API's unit: what AWS sells as 1.2 TiB is 1,200 GiB there. Not for one that is elastic."""
        return self.existing.capacity_gib if self.existing else round(self.capacity_tib * 1000)

    @property
    def mirrored(self) -> tuple[str, ...]:
        """The prefixes of the data bucket that the platform links."""
        return MIRRORED_PREFIXES if self.mirror else ()

    @property
    def is_linked(self) -> bool:
        """Whether the file system is linked to S3, by the platform or already before."""
        return bool(self.mirrored or self.import_from or (self.existing and self.existing.associations))


class Home(Section):
    """An FSx for OpenZFS file system for home directories, which Slurm nodes mount at /home."""

    capacity_gib: int = Field(1024, ge=1, description="SSD storage in GiB. It can be increased later.")
    throughput_mbps: HomeThroughput = Field(
        320, description="Throughput in MB/s. The error for a wrong value lists the valid values."
    )
    highly_available: bool = Field(True, description="Add a standby file server in the same Availability Zone.")
    key: KmsKey | None = Field(
        None,
        description="ARN of the KMS key that encrypts the file system. Default: the account's AWS managed key of FSx.",
    )
    backups: Backups | None = Field(default_factory=Backups, description="Daily backups. null: no backups.")
    maintenance: Maintenance | None = Field(
        None, description="Weekly 30-minute maintenance window. null: FSx chooses the window."
    )
    on_destroy: OnDestroy = Field(
        "delete", description="Keep or delete the file system when the platform is destroyed."
    )


class Storage(Section):
    """The data bucket and the file systems."""

    bucket: Bucket = Field(
        default_factory=Bucket, description="The data bucket. It is kept when the platform is destroyed."
    )
    lustre: Lustre | None = Field(
        default_factory=Lustre,
        description="The FSx for Lustre file system that jobs use. null: no file system, with the orchestrator eks. "
        "Jobs then keep data, checkpoints, and the files of runs in the data bucket.",
    )
    former_lustre: Lustre | None = Field(
        None,
        description="The file system that jobs used before, with the settings that it had as `lustre`. You pay for "
        "it until you remove this section, which deletes it.",
    )
    home: Home | None = Field(
        None,
        description="With hyperpod-slurm. File system for home directories. null keeps the homes of slurm.users and "
        "of a directory's users on Lustre, and others on each node's own disk.",
    )

    @property
    def lustre_by_key(self) -> dict[str, Lustre]:
        """The Lustre file systems by their keys: the one that jobs use first. Empty for a platform without any."""
        sections = {"lustre": self.lustre, "former_lustre": self.former_lustre}
        return {key: section for key, section in sections.items() if section is not None}

    @property
    def of_jobs(self) -> Lustre:
        """The file system that jobs use. Raises LookupError for a platform without one."""
        if self.lustre is None:
            raise LookupError("the platform has no file system: its jobs keep everything in the data bucket")
        return self.lustre

    @property
    def team_directories(self) -> bool:
        """Whether the jobs of a team mount only the directory of the team."""
        return self.lustre is not None and self.lustre.team_directories

    @property
    def dynamic_volumes(self) -> bool:
        """Whether a PersistentVolumeClaim can create a file system of its own."""
        return self.lustre is not None and self.lustre.dynamic_volumes
