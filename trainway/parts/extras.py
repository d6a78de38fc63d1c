"""Which packages an optional part of Trainway needs: those that the installed distribution lists for an extra."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Literal

from trainway.spec.errors import usage_error

Extra = Literal["emulator", "platform", "report", "training"]


def require_extras(what: str, *extras: Extra) -> None:
    """Check that the packages of the extras are installed. `what` needs them, for example `trainway demo`.

    Raises UsageError with the missing packages, and the command that installs them.
    """
    missing = {extra: names for extra in extras if (names := _missing(extra))}
    if missing:
        packages = ", ".join(sorted({name for names in missing.values() for name in names}))
        raise usage_error(
            f"{what} cannot start",
            why=f"packages are not installed: {packages}",
            fix=f"pip install 'trainway[{','.join(missing)}]'",
        )


def packages_of(extra: Extra) -> list[str]:
    """Return the names of the packages of an extra; none where Trainway runs without being installed."""
    try:
        listed = requires("trainway") or []
    except PackageNotFoundError:
        return []
    of_the_extra = re.compile(rf"""([\w.-]+).*;.*\bextra == ["']{extra}["']""")
    return [found[1] for line in listed if (found := of_the_extra.fullmatch(line))]


def _missing(extra: Extra) -> list[str]:
    return [name for name in packages_of(extra) if not _installed(name)]


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
