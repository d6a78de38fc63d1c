"""The packages and the Dockerfile that a platform adds to the base of its image, found beside the platform file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainway.spec.package_lock import PackageLock


@dataclass(frozen=True)
class Additions:
    """The lock of the Python packages, or None without any, and the directory of the Dockerfile, or None."""

    packages: PackageLock | None
    dockerfile: Path | None


NO_ADDITIONS = Additions(None, None)
