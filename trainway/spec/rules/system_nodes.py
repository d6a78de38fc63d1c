"""Rules about the nodes that run the cluster's own pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.system_pods import misfit
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, instance_types, rule


@rule
def system_nodes_carry_their_pods(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """The add-ons' and charts' pods find room on the system nodes, also when one of two or more is lost."""
    system = platform.kubernetes_or_default.system_nodes.instance_type
    names = (system, *(name for _, name in instance_types(platform)))
    if any(name not in catalogue for name in names) or catalogue[system].accelerator is not None:
        return  # reported by its own rule
    if platform.orchestrator.is_kubernetes and (found := misfit(platform, catalogue)):
        yield ("kubernetes", "system_nodes", "instance_type"), found.reason, found.remedy
