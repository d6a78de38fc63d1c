"""Releases of EKS's AMIs: the release of each node group, and its names in AWS."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.kubernetes_versions import numbers
from trainway.spec.platform import Platform

# The platform's own node group. `node_groups` cannot use this name.
SYSTEM_NODES = "system"
# A kubelet may be up to three minor versions older than the control plane, and never newer.
# https://kubernetes.io/releases/version-skew-policy/#kubelet (read 2026-11-22)
OLDEST_KUBELET = 3


def variant(instance: Instance) -> str:
    """Return EKS's AMI for an instance type, as its name in Parameter Store has it: `x86_64/nvidia`, for example.

    https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html (read 2026-11-22)
    """
    kind = "standard"
    if instance.accelerator is not None:
        kind = "neuron" if instance.accelerator.vendor == "neuron" else "nvidia"
    return f"{instance.architecture}/{kind}"


def parameter(minor: str, instance: Instance) -> str:
    """Return the name of the public parameter that has the newest release of a Kubernetes minor version."""
    return f"/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{variant(instance)}/recommended/release_version"


def minor_of(release: str) -> str:
    """Return the Kubernetes minor version of a release: `1.34` of `1.34.1-20261112`."""
    return ".".join(release.split(".")[:2])


def age(release: str) -> tuple[int, ...]:
    """Return the sort key of a release: the Kubernetes version, and then the date."""
    version, _, date = release.partition("-")
    return (*numbers(version), int(date))


def groups_with_releases(platform: Platform, catalogue: Catalogue) -> Iterator[tuple[str, Instance]]:
    """Yield each managed node group whose AMI is EKS's own, with the instance type that chooses the AMI."""
    if not platform.orchestrator.is_kubernetes:
        return
    yield SYSTEM_NODES, catalogue[platform.kubernetes_or_default.system_nodes.instance_type]
    if platform.orchestrator.is_hyperpod:
        return
    for group in platform.node_groups:
        if group.image_id is None:
            yield group.name, catalogue[group.instance_type]


def next_minor(version: str) -> str:
    """Return the minor version after one: `1.35` after `1.34`."""
    major, minor = numbers(version)
    return f"{major}.{minor + 1}"


def minors_behind(older: str, newer: str) -> int:
    """Return by how many minor versions `older` is behind `newer`."""
    return numbers(newer)[1] - numbers(older)[1]
