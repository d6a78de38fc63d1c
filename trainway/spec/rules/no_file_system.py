"""Platforms without a file system: `storage.lustre` is null."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.lustre import LUSTRE
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator

# What HyperPod's nodes and jobs keep on the file system.
REQUIRED_BY = {
    Orchestrator.HYPERPOD_EKS: "pods of HyperPod's training operator start again in place and share the files of a run",
    Orchestrator.HYPERPOD_SLURM: "nodes share home directories, the code of jobs, and their output",
}


@rule
def hyperpod_has_a_file_system(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Nodes and jobs of HyperPod share a file system."""
    why = REQUIRED_BY.get(platform.orchestrator)
    if platform.storage.lustre is None and why:
        reason = f"{platform.orchestrator.value} requires a file system: {why}"
        fix = "remove the key, write `lustre: {storage_class: scratch}` for one that costs less, or use the "
        yield LUSTRE, reason, f"{fix}orchestrator eks"
