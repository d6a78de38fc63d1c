"""Who scales node groups: the Cluster Autoscaler on EKS, and HyperPod itself on HyperPod."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule


@rule
def hyperpod_scales_its_groups_itself(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The key of plain EKS stands in no file for HyperPod, which has one of its own."""
    written = platform.kubernetes is not None and "autoscaling" in platform.kubernetes.model_fields_set
    if written and platform.orchestrator.is_hyperpod:
        yield (
            ("kubernetes", "autoscaling"),
            "HyperPod scales its groups itself",
            "remove the key, or write `hyperpod: {autoscaling: true}`",
        )
