"""Nodes whose NVIDIA driver is older than the CUDA of the training image requires."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.drivers import DriverFacts, branch_of
from trainway.spec.facts.versions import Versions, release
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.image.image_build import combination_of, keeps_base_packages, variant_of
from trainway.spec.kubernetes.ami_releases import minor_of
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup


class OldDriver(NamedTuple):
    """A node group whose driver is older than CUDA requires.

    `group_index` is the group's index in `node_groups`. `ami` is the release or version of its AMI. `oldest_branch` is
    the oldest branch that `cuda` supports.
    """

    group_index: int
    group: str
    ami: str
    driver: str
    cuda: str
    oldest_branch: int


def old_drivers(
    platform: Platform, catalogue: Catalogue, versions: Versions, facts: DriverFacts
) -> Iterator[OldDriver]:
    """Yield each node group of the image whose AMI is known to have a driver older than the image's CUDA requires.

    Nothing is known of a group without a release in the lock, of an AMI of the user's, of HyperPod's AMI under Slurm,
    and of the CUDA of an image that keeps the packages of its base.
    """
    cuda = cuda_of(platform, catalogue, versions)
    oldest = facts.cuda.oldest_branches.get(cuda.partition(".")[0]) if cuda else None
    if cuda is None or oldest is None:
        return
    for index, group in enumerate(platform.node_groups):
        if (group.image or DEFAULT_IMAGE) != platform.image_name:
            continue
        accelerator = catalogue[group.instance_type].accelerator
        ami = ami_of(platform, group)
        if accelerator is None or accelerator.vendor != "nvidia" or ami is None:
            continue
        driver = hyperpod_driver(ami, facts) if platform.orchestrator.is_hyperpod else eks_driver(ami, facts)
        if driver is None or branch_of(driver) >= oldest:
            continue
        yield OldDriver(index, group.name, ami, driver, cuda, oldest)


def cuda_of(platform: Platform, catalogue: Catalogue, versions: Versions) -> str | None:
    """Return the CUDA version of the image that the deploy builds, or None if it has none, or an unknown one."""
    if platform.image.uri or variant_of(platform, catalogue) != "cuda" or keeps_base_packages(platform, catalogue):
        return None
    wheel = release(versions.pytorch, combination_of(platform, versions).pytorch)
    return wheel.cuda if wheel else None


def ami_of(platform: Platform, group: NodeGroup) -> str | None:
    """Return the release of EKS's AMI or the version of HyperPod's AMI that a node group is pinned to, or None."""
    if group.image_id is not None or not platform.orchestrator.is_kubernetes:
        return None
    return group.image_version if platform.orchestrator.is_hyperpod else platform.lock.ami_releases.get(group.name)


def eks_driver(ami: str, facts: DriverFacts) -> str | None:
    """Return the driver of a release of EKS's accelerated AMI, or None if it is not known."""
    day = datetime.strptime(ami.partition("-")[2], "%Y%m%d").date()
    if day > facts.eks.until:
        return None
    known = [each for each in facts.eks.versions.get(minor_of(ami), ()) if each.since <= day]
    return known[-1].driver if known else None


def hyperpod_driver(ami: str, facts: DriverFacts) -> str | None:
    """Return the driver of a version of HyperPod's AMI for EKS, or None if it is not known."""
    return facts.hyperpod.versions.get(minor_of(ami))
