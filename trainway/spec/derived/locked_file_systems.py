"""What the platform's file systems are created with, and FSx never changes.

UpdateFileSystem of FSx's API has none of these members, and CloudFormation would put a second, empty file system in the
place of the first.
"""

from __future__ import annotations

from trainway.spec.lock import LockedHome, LockedLustre
from trainway.spec.platform import Platform


def locked_lustre(platform: Platform) -> LockedLustre | None:
    """Return what the platform's own Lustre file system is created with, or None if it uses an existing one."""
    lustre = platform.storage.lustre
    if lustre.existing:
        return None
    return LockedLustre(storage_class=lustre.storage_class, efa=lustre.efa, key=lustre.key)


def locked_home(platform: Platform) -> LockedHome | None:
    """Return what the file system of home directories is created with, or None without one."""
    home = platform.storage.home
    return LockedHome(highly_available=home.highly_available, key=home.key) if home else None
