"""What the platform's file systems are created with, and FSx never changes.

UpdateFileSystem of FSx's API has none of these members, and CloudFormation would put a second, empty file system in the
place of the first.
"""

from __future__ import annotations

from trainway.spec.lock import LockedHome, LockedLustre
from trainway.spec.platform import Platform
from trainway.spec.sections.storage import Lustre


def locked_lustre(lustre: Lustre | None) -> LockedLustre | None:
    """Return what a Lustre file system is created with, or None without one or for an existing one."""
    if lustre is None or lustre.existing:
        return None
    return LockedLustre(
        generation=lustre.generation, storage_class=lustre.storage_class, efa=lustre.efa, key=lustre.key
    )


def locked_home(platform: Platform) -> LockedHome | None:
    """Return what the file system of home directories is created with, or None without one."""
    home = platform.storage.home
    return LockedHome(highly_available=home.highly_available, key=home.key) if home else None
