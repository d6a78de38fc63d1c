"""File systems that are deployed keep what they were created with, and are left by a way that loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from trainway.spec.derived.locked_file_systems import locked_home, locked_lustre
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.lock import LockedHome, LockedLustre
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule

LUSTRE: KeyPath = ("storage", "lustre")
FORMER: KeyPath = ("storage", "former_lustre")
# The section of the page that says how.
WAY = "docs/storage.md, Moving to another file system, says"


@rule
def file_systems_keep_what_they_were_created_with(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No change replaces a deployed file system. FSx would create an empty one in its place."""
    deployed = _deployed(platform)
    for name, lustre in platform.storage.lustre_by_key.items():
        asked = locked_lustre(lustre)
        if asked and asked.generation in deployed:
            yield from _changed(("storage", name), deployed[asked.generation], asked, f"create another one as {WAY}")
    home = locked_home(platform)
    if platform.lock.home and home:
        yield from _changed(("storage", "home"), platform.lock.home, home, "move as docs/storage.md says")


@rule
def the_file_system_in_use_stays(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A deploy that deleted the file system of jobs would leave nothing to go back to."""
    used = platform.lock.lustre
    kept = {each.generation for each in platform.storage.lustre_by_key.values() if not each.existing}
    if used and used.generation not in kept:
        reason = f"jobs use the file system of generation {used.generation}, and the file has it no more"
        remedy = f"write its section as `storage.former_lustre`, as {WAY}"
        yield (*LUSTRE, "generation"), reason, remedy


@rule
def another_file_system_has_another_generation(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A generation is one file system for good, so that no edit takes one for another."""
    lustre, former, deployed = platform.storage.lustre, platform.storage.former_lustre, _deployed(platform)
    if lustre is None:
        return
    if former and former.generation == lustre.generation:
        reason = f"storage.lustre has generation {lustre.generation} as well"
        yield (*FORMER, "generation"), reason, f"write `generation: {lustre.generation + 1}` below `storage.lustre`"
    newest = max(deployed, default=lustre.generation)
    if lustre.generation < newest and lustre.generation not in deployed:
        reason = f"the platform had a file system of generation {newest} already"
        yield (*LUSTRE, "generation"), reason, f"write {newest + 1} for another one, or {newest}"


@rule
def a_former_file_system_is_deployed(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No edit creates a file system that costs thousands a month and that no job uses."""
    former, deployed = platform.storage.former_lustre, _deployed(platform)
    if former is None:
        return
    if former.existing:
        reason = "a file system of yours stays, whether or not the platform file has it"
        yield (*FORMER, "existing"), reason, "remove the section `former_lustre`"
    elif former.generation not in deployed:
        reason = f"no file system of generation {former.generation} is deployed, by platform.lock.yaml"
        yield (*FORMER, "generation"), reason, "remove the section, or restore the lock of the last deploy from Git"


def _deployed(platform: Platform) -> Mapping[int, LockedLustre]:
    """Return the deployed Lustre file systems by generation."""
    lock = platform.lock
    return {each.generation: each for each in (lock.lustre, lock.former_lustre) if each}


def _changed(
    section: KeyPath, deployed: LockedLustre | LockedHome, asked: LockedLustre | LockedHome, other: str
) -> list[Breach]:
    found = []
    for key, before in deployed:
        if getattr(asked, key) != before:
            was = f"`{key}: {before if isinstance(before, str) else json.dumps(before)}`"
            reason = (
                f"the file system was created with {was}, which FSx cannot change; a deploy would put an empty "
                "file system in its place"
            )
            found.append(((*section, key), reason, f"write {was}, or {other}"))
    return found
