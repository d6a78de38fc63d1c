"""A Kubernetes upgrade goes one minor version at a time, the control plane before its nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.ami_releases import OLDEST_KUBELET, minor_of, minors_behind, next_minor
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, published_rule, rule

KEY: KeyPath = ("kubernetes", "version")


@rule
def the_control_plane_rises_by_one_minor_version(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A deployed control plane gets the next minor version, or keeps its own.

    https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html (read 2026-11-22)
    """
    deployed, wanted = platform.lock.kubernetes_version, platform.kubernetes_or_default.version
    # Its owner upgrades an adopted cluster, and a deploy does not touch it.
    if not platform.orchestrator.is_kubernetes or deployed is None or platform.adopted_cluster:
        return
    behind = minors_behind(deployed, wanted)
    if behind < 0:
        reason = f"the control plane has {deployed}, and a deploy does not bring it back to an older version"
        yield KEY, reason, f'write "{deployed}"'
    elif behind > 1:
        reason = f"the control plane has {deployed}, and EKS upgrades one minor version at a time"
        remedy = f'write "{next_minor(deployed)}", deploy, and run `trainway upgrade --check` for the next step'
        yield KEY, reason, remedy


@rule
def nodes_are_not_newer_than_the_control_plane(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The releases of the lock are of the control plane's minor version, or of one of the three before it."""
    wanted = platform.kubernetes_or_default.version
    if not platform.orchestrator.is_kubernetes:
        return
    for name, release in platform.lock.ami_releases.items():
        behind = minors_behind(minor_of(release), wanted)
        if behind < 0:
            reason = f"the lock has release {release} for nodes of {name}, which are not newer than the control plane"
            yield KEY, reason, f'write "{minor_of(release)}", or restore the lock of the last deploy from Git'
        elif behind > OLDEST_KUBELET:
            reason = f"nodes of {name} have release {release}, which is more than {OLDEST_KUBELET} minor versions older"
            yield KEY, reason, f"run `trainway upgrade` before this step, and deploy, so that {name} is newer"


@published_rule
def the_nodes_have_the_version_that_the_control_plane_leaves(
    platform: Platform, _catalogue: Catalogue
) -> Iterator[Breach]:
    """A control plane rises when the nodes of its managed groups have the version that it has now.

    AWS's pages disagree: this says the API, and the user guide's first step. Its considerations allow nodes that are up
    to three minor versions older.
    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterVersion.html
    https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html (both read 2026-11-30)
    """
    deployed, wanted = platform.lock.kubernetes_version, platform.kubernetes_or_default.version
    if not platform.orchestrator.is_kubernetes or deployed is None or platform.adopted_cluster:
        return
    if minors_behind(deployed, wanted) < 1:
        return
    for name, release in platform.lock.ami_releases.items():
        if minors_behind(minor_of(release), deployed) > 0:
            reason = f"nodes of {name} have release {release}, and EKS raises {deployed} when all managed nodes have it"
            remedy = f'write "{deployed}", run `trainway upgrade`, deploy, and then write "{wanted}"'
            yield KEY, reason, remedy
