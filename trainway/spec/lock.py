"""What earlier deploys of a platform fixed, and every later synthesis keeps.

The file `platform.lock.yaml` stands beside `platform.yaml`, and both are committed to Git. `trainway lock` writes it. A
synthesis only reads it, so that templates are a function of the two files.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from trainway.spec import strict_yaml
from trainway.spec.facts.services import service_facts
from trainway.spec.problems import KeyPath
from trainway.spec.sections.fields import Range, ZoneId
from trainway.spec.values import Matches, Section

HEADER = """\
# What earlier deploys fixed. `trainway lock` writes this file. Commit it together with the platform file.
"""
WRITE_AGAIN = "run `trainway lock --from-deployed`, or restore the file of the last deploy from Git"

SubnetName = Annotated[
    str,
    Matches(
        r"(public|cluster)-[0-5]|storage|nodes-[a-z0-9-]+",
        "the platform gives no subnet this name",
        WRITE_AGAIN,
    ),
]


class LockedSubnet(Section):
    """A subnet that a deploy created. Neither its range nor its zone can change."""

    cidr: Range = Field(description="Range of IP addresses of the subnet.")
    zone: ZoneId = Field(description="Availability Zone ID of the subnet.")


# `release_version` of the documented answer is 1.14.9-20201007 (read 2026-11-22):
# https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters-eks.html
AmiRelease = Annotated[
    str,
    Matches(
        r"1\.\d\d\.\d+-\d{8}",
        "it is not a release of an EKS AMI",
        "run `trainway upgrade`, which writes it as in 1.34.1-20261112",
    ),
]

AddonVersion = Annotated[
    str,
    Matches(r"v\d+(\.\d+)+-eksbuild\.\d+", "it is not the version of an EKS add-on", "run `trainway upgrade`"),
]


class LockedLustre(Section):
    """A deployed Lustre file system: its generation, and what it was created with that FSx cannot change."""

    generation: int = Field(1, description="`storage.lustre.generation`.")
    storage_class: Literal["ssd", "scratch", "intelligent-tiering"] = Field(
        description="`storage.lustre.storage_class`."
    )
    efa: bool = Field(description="`storage.lustre.efa`.")
    key: str | None = Field(None, description="`storage.lustre.key`. null: the account's key of FSx.")


class LockedHome(Section):
    """What the deployed file system of home directories was created with, and FSx cannot change."""

    highly_available: bool = Field(description="`storage.home.highly_available`.")
    key: str | None = Field(None, description="`storage.home.key`. null: the account's key of FSx.")


class Lock(Section):
    """Decisions of earlier deploys, which later ones keep. The lock of a platform that was never deployed is empty."""

    vpc_cidr: Range | None = Field(None, description="`network.cidr` of the first deploy.")
    service_cidr: Range | None = Field(None, description="Range of the Kubernetes services.")
    subnets: dict[SubnetName, LockedSubnet] = Field(
        default_factory=dict, description="Subnets that the platform created, by their names in `trainway plan`."
    )
    leaving: tuple[str, ...] = Field(
        (), description="Subnets that the next deploy deletes. Until then nothing else takes their ranges."
    )
    lustre: LockedLustre | None = Field(
        None, description="The Lustre file system that jobs use, unless it is an existing one."
    )
    former_lustre: LockedLustre | None = Field(None, description="The file system that jobs used before.")
    home: LockedHome | None = Field(None, description="The file system of home directories.")
    kubernetes_version: str | None = Field(
        None, description="Kubernetes minor version that the last deploy gave the control plane."
    )
    adopted_cluster: str | None = Field(
        None, description="Name of the existing EKS cluster that the last deploy used. null: the platform created one."
    )
    ami_releases: dict[str, AmiRelease] = Field(
        default_factory=dict,
        description="Release of EKS's AMI by node group; `system` has that of the system nodes. `trainway upgrade` "
        "writes it. Nodes without one keep the newest release of the day on which their group was created.",
    )
    node_tags: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        description="Tags of the EC2 instances and volumes of each node group. They are `tags` of the day on which the "
        "group was created. `trainway upgrade` writes the present ones.",
    )
    addon_versions: dict[str, AddonVersion] = Field(
        default_factory=dict,
        description="Version of each EKS add-on. `trainway upgrade` writes it. An add-on without one keeps the default "
        "version of the day on which it was created.",
    )


def lock_file(platform_file: Path) -> Path:
    """Return where the lock of a platform file is: `platform.lock.yaml` beside `platform.yaml`."""
    return platform_file.with_name(f"{platform_file.stem}.lock.yaml")


def lock_text(lock: Lock) -> str:
    """Return the text of a lock's file: one line for each subnet, so that Git merges what two branches add."""
    written = lock.model_dump(mode="json", exclude_defaults=True)
    return HEADER + (strict_yaml.dump(written, flow=None, width=1000) if written else "{}\n")


def contradictions(lock: Lock) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield the key, the reason, and the fix of everything in a lock that no deploy can have left behind."""
    low, high = service_facts().vpc.prefix_lengths
    for name, subnet in lock.subnets.items():
        if not low <= subnet.cidr.prefixlen <= high:
            yield ("subnets", name, "cidr"), f"a subnet is between /{low} and /{high}", WRITE_AGAIN
    for (first, one), (second, other) in combinations(lock.subnets.items(), 2):
        if one.cidr.overlaps(other.cidr):
            # Two branches that each added a node group give both the same range.
            remedy = "delete the subnet that is not deployed yet from the lock, and run `trainway lock` again"
            yield ("subnets", second, "cidr"), f"{first} has {one.cidr}, which overlaps it", remedy
        if one.zone == other.zone and first.startswith("cluster-") and second.startswith("cluster-"):
            yield ("subnets", second, "zone"), f"{first} is in this zone, which has one subnet", WRITE_AGAIN
    for index, name in enumerate(lock.leaving):
        if name not in lock.subnets:
            yield ("leaving", index), "the lock has no subnet of this name", WRITE_AGAIN
