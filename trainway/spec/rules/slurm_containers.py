"""What has to be there for Slurm's jobs to run in containers."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.node_packages import ARCHITECTURE
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, instance_types, rule


@rule
def containers_are_for_the_nodes_processors(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every node installs the packages of `slurm.containers: true`, and they are for one kind of processor."""
    if not platform.slurm_or_default.containers:
        return
    for key, name in instance_types(platform):
        if name in catalogue and catalogue[name].architecture != ARCHITECTURE:
            ours = f"the packages of slurm.containers are for {ARCHITECTURE}"
            reason = f"its processors are {catalogue[name].architecture}, and {ours}"
            yield key, reason, "leave slurm.containers out, and give the group an image_id that has enroot and pyxis"
