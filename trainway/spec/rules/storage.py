"""Storage: what FSx sells."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach
from trainway.spec.services import service_facts


def lustre_capacity_is_sold(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The file system's capacity is one that FSx sells at that throughput, with or without EFA."""
    lustre, facts = platform.storage.lustre, service_facts().lustre
    key: KeyPath = ("storage", "lustre", "capacity_tib")
    if lustre.efa:
        step = facts.efa_capacity_step_gib[lustre.throughput_mbps_per_tib]
        if lustre.capacity_gib % step:
            speed = f"{lustre.throughput_mbps_per_tib} MB/s per TiB"
            reason = f"with EFA at {speed}, capacity comes in steps of {step / 1000} TiB"
            above = (lustre.capacity_gib // step + 1) * step
            yield key, reason, f"write {above / 1000}, or a higher throughput, whose steps are smaller"
    elif lustre.capacity_gib not in facts.capacity_gib and lustre.capacity_gib % facts.capacity_step_gib:
        above = (lustre.capacity_gib // facts.capacity_step_gib + 1) * facts.capacity_step_gib
        sizes = ", ".join(str(gib / 1000) for gib in facts.capacity_gib)
        yield key, f"FSx sells {sizes} TiB and then steps of {facts.capacity_step_gib / 1000}", f"write {above / 1000}"
