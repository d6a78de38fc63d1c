"""The Kubernetes version is one that EKS has and that the orchestrator supports."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.kubernetes_versions import kubernetes_versions, numbers
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule


def version_key(platform: Platform) -> KeyPath:
    """Return the key that has the Kubernetes version of the platform's cluster."""
    return ("kubernetes", "existing", "version") if platform.adopted_cluster else ("kubernetes", "version")


@rule
def the_kubernetes_version_exists(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """EKS has the version, and HyperPod supports it if the orchestrator is HyperPod's.

    The remedy names the default and newer versions, because standard support of an older one ends sooner or has ended.
    """
    facts, version, orchestrator = kubernetes_versions(), platform.kubernetes_or_default.version, platform.orchestrator
    if not orchestrator.is_kubernetes:
        return
    known = facts.of(hyperpod=orchestrator.is_hyperpod)
    if version in known:
        return
    by = "EKS"
    read = facts.eks.sources[0].read
    if orchestrator.is_hyperpod:
        by, read = "HyperPod on EKS", facts.hyperpod.sources[0].read
    newer = " or ".join(each for each in known if numbers(each) >= numbers(facts.default))
    remedy = (
        f"upgrade the cluster to {newer}, and adopt it again"
        if platform.adopted_cluster
        else f"write {newer}, in quotes"
    )
    yield (
        version_key(platform),
        f"{by} does not support Kubernetes {version} (read {read})",
        remedy,
    )
