"""What has to be there for Slurm's jobs to run in containers."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.catalogue import Catalogue
from trainway.spec.node_packages import ARCHITECTURE, unchecked_files
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, instance_types

KEY: KeyPath = ("slurm", "containers")


def containers_are_what_somebody_checked(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A node installs nothing that could be anything."""
    lacking = unchecked_files() if platform.slurm_or_default.containers else ()
    if lacking:
        reason = f"no public source that could be read states the checksum of {' and '.join(lacking)}"
        remedy = (
            "compare what is there with its publisher's, then put the files into lifecycle_scripts/packages, or their "
            "sha256 into delivery/node_packages.yaml"
        )
        yield KEY, reason, remedy


def containers_are_for_the_nodes_processors(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every node installs them, and they are for one kind of processor."""
    if not platform.slurm_or_default.containers:
        return
    for key, name in instance_types(platform):
        if name in catalogue and catalogue[name].architecture != ARCHITECTURE:
            ours = f"the packages of slurm.containers are for {ARCHITECTURE}"
            reason = f"its processors are {catalogue[name].architecture}, and {ours}"
            yield key, reason, "leave slurm.containers out, and give the group an image_id that has enroot and pyxis"
