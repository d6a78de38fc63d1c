"""File systems that are deployed keep what they were created with."""

from __future__ import annotations

import json
from collections.abc import Iterator

from trainway.spec.derived.locked_file_systems import locked_home, locked_lustre
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule


@rule
def file_systems_keep_what_they_were_created_with(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A change that FSx cannot make would put an empty file system in the place of the one with data."""
    lock = platform.lock
    pairs = (("lustre", lock.lustre, locked_lustre(platform)), ("home", lock.home, locked_home(platform)))
    for name, deployed, asked in pairs:
        if deployed is None or asked is None:
            continue
        for key, before in deployed:
            if getattr(asked, key) != before:
                was = f"`{key}: {before if isinstance(before, str) else json.dumps(before)}`"
                reason = (
                    f"the file system was created with {was}, which FSx cannot change; a deploy would put an empty "
                    "file system in its place"
                )
                yield ("storage", name, key), reason, f"write {was}, or move as docs/storage.md says"
