"""An adopted file system has the name of its ID and Region, and links that FSx can have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule


@rule
def an_existing_file_system_is_described_as_it_is(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The DNS name has the ID and the Region, and no linked directory is inside another one."""
    for name, lustre in platform.storage.lustre_by_key.items():
        theirs, key = lustre.existing, ("storage", name, "existing")
        if theirs is None:
            continue
        again = f"run `trainway adopt {theirs.file_system_id}`, and write what it prints"
        wanted = f"{theirs.file_system_id}.fsx.{platform.region}."
        if not theirs.dns_name.startswith(wanted):
            where: KeyPath = (*key, "dns_name")
            yield where, f"that of {theirs.file_system_id} in {platform.region} begins with {wanted}", again
        for one, other in combinations(sorted(theirs.associations), 2):
            if PurePosixPath(other).is_relative_to(one):
                yield (*key, "associations", other), f"it is inside {one}, which is linked, too", again
