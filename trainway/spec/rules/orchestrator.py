"""Sections and keys that stand in a file for another orchestrator."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule


@rule
def sections_match_the_orchestrator(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A section about one orchestrator does not stand in a file for another."""
    chosen = platform.orchestrator
    if platform.slurm and chosen.is_kubernetes:
        yield ("slurm",), f"the orchestrator is {chosen.value}, which has no Slurm", "remove the section"
    if platform.hyperpod and not chosen.is_hyperpod:
        yield ("hyperpod",), f"the orchestrator is {chosen.value}, which is not HyperPod", "remove the section"
    if platform.kubernetes and not chosen.is_kubernetes:
        yield ("kubernetes",), f"the orchestrator is {chosen.value}, which has no Kubernetes", "remove the section"


@rule
def each_orchestrator_has_its_own_collector(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`kubernetes.observability` is for the orchestrator eks. HyperPod's own add-on collects on hyperpod-eks."""
    if platform.orchestrator.is_hyperpod and platform.kubernetes_or_default.observability:
        reason = "HyperPod has an observability add-on of its own, which would collect the same metrics"
        yield ("kubernetes", "observability"), reason, "remove the key, and write `observability: true` in `hyperpod`"


@rule
def what_only_kubernetes_has_is_not_asked_of_slurm(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod's add-ons and Karpenter are for EKS."""
    if platform.hyperpod is None or platform.orchestrator.is_kubernetes:
        return
    only_on_eks = (
        "autoscaling",
        "observability",
        "spaces",
        "task_governance",
        "training_operator",
    )
    for key in only_on_eks:
        if key in platform.hyperpod.model_fields_set and getattr(platform.hyperpod, key):
            reason = "HyperPod has it on EKS only"
            instead = "write `observability: true` in `slurm`" if key == "observability" else "use hyperpod-eks"
            yield ("hyperpod", key), reason, f"remove the key, or {instead}"
