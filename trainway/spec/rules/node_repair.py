"""How nodes are repaired: on EKS alone, and for reasons that the agent reports."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.node_repair import node_repair_facts
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule


@rule
def eks_repairs_its_own_nodes_alone(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod replaces its nodes itself, and has no such settings."""
    if platform.kubernetes_or_default.node_repair and platform.orchestrator.is_hyperpod:
        yield (
            ("kubernetes", "node_repair"),
            "HyperPod repairs its nodes itself, and takes no overrides",
            "remove the key; `hyperpod.node_recovery` switches HyperPod's own repair",
        )


@rule
def repairs_are_for_reasons_that_are_reported(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A reason that the agent never reports would be an override without effect, and each has one action."""
    repair, facts = platform.kubernetes_or_default.node_repair, node_repair_facts()
    seen = set[str]()
    for index, override in enumerate(repair.overrides if repair else ()):
        key = ("kubernetes", "node_repair", "overrides", index, "reason")
        if facts.condition_of(override.reason) is None:
            close = difflib.get_close_matches(override.reason, facts.reasons, n=1)
            read = facts.sources[0].read
            remedy = f"did you mean {close[0]}?" if close else f"write one of {', '.join(facts.reasons)}"
            yield key, f"the node monitoring agent reports no condition with this reason (read {read})", remedy
        if override.reason in seen:
            yield key, "another override is for this reason", "keep one of the two"
        seen.add(override.reason)
