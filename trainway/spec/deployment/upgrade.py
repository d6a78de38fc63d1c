"""Whether a version of Trainway can deploy a platform that another version deployed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainway.spec.facts.kubernetes_versions import numbers
from trainway.spec.facts.releases import Release


@dataclass(frozen=True)
class Refusal:
    """Why a version must not deploy a platform, and what to do instead."""

    why: str
    fix: str


def upgrade_refusal(deployed: str | None, version: str, releases: Sequence[Release]) -> Refusal | None:
    """Return why `version` must not deploy over what the version `deployed` deployed, or None if it may.

    `deployed` is None for a platform that does not record its version. `releases` has the releases that `version`
    knows, oldest first, itself included.
    """
    if deployed is None:
        why = "its hand-off names no version, so it was deployed before 0.1.0, whose stacks have other resources"
        fix = "`make destroy` and `make deploy`: the data bucket stays, and the new deploy takes it up again"
        return Refusal(why, fix)
    if not re.fullmatch(r"\d+\.\d+\.\d+", deployed) or numbers(deployed) > numbers(version):
        why = f"Trainway {deployed} deployed it, and this is the older version {version}, which would undo its changes"
        return Refusal(why, f"install Trainway {deployed} or newer, and deploy with it")
    by_version = {release.version: release for release in releases}
    if numbers(deployed) >= numbers(by_version[version].upgrades_from):
        return None
    why = f"Trainway {deployed} deployed it, and {version} upgrades platforms of {by_version[version].upgrades_from}"
    between = [each for each in releases if numbers(deployed) < numbers(each.version) < numbers(version)]
    if steps := [each.version for each in between if numbers(each.upgrades_from) <= numbers(deployed)]:
        return Refusal(f"{why} or newer", f"install Trainway {steps[-1]}, deploy with it, and then with {version}")
    fix = "`make destroy` and `make deploy`: the data bucket stays, and the new deploy takes it up again"
    return Refusal(f"{why} or newer, and no version between them upgrades it", fix)
