"""Settings with which the platform's file systems are created, and which FSx never changes.

UpdateFileSystem of FSx's API has none of these members. A change would make CloudFormation replace the file system by a
second, empty one.
"""

from __future__ import annotations

from trainway.spec.lock import LockedHome, LockedLustre
from trainway.spec.platform import Platform
from trainway.spec.sections.storage import Lustre


def locked_lustre(lustre: Lustre | None) -> LockedLustre | None:
    """Return the settings with which a Lustre file system is created. None without one, or for an existing one."""
    if lustre is None or lustre.existing:
        return None
    return LockedLustre(
        generation=lustre.generation, storage_class=lustre.storage_class, efa=lustre.efa, key=lustre.key
    )


def locked_home(platform: Platform) -> LockedHome | None:
    """Return the settings with which the file system of home directories is created, or None without one."""
    home = platform.storage.home
    return LockedHome(highly_available=home.highly_available, key=home.key) if home else None
