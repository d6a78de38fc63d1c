"""The directories of the tests' programs, in a mount namespace where something hides or closes the way to them."""

from __future__ import annotations

import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path


def hide(*directories: str, open_to_all: bool = False) -> str:
    """Return shell commands that mount an empty directory over each of `directories`, and keep the programs reachable.

    The programs are this checkout, its Python, and the packages. They stay at their paths. With `open_to_all`, every
    user can reach them there, also where only the owner may enter a directory above the checkout: the commands hide
    that directory too. The commands require root, and a mount namespace whose mounts are private.
    """
    programs = _programs()
    wanted = list(dict.fromkeys([*map(Path, directories), *(_closed(programs) if open_to_all else ())]))
    hidden = [each for each in wanted if not any(above in wanted for above in each.parents)]
    shown = [each for each in programs if any(each.is_relative_to(above) for above in hidden)]
    numbered = [(number, shlex.quote(str(each))) for number, each in enumerate(shown, start=3)]
    # An open file descriptor reaches a directory that a mount hides. Without -c, mount would ask for its path.
    return "\n".join(
        [
            *(f"exec {number}<{path}" for number, path in numbered),
            *(f"mount -t tmpfs -o mode=755 hidden {shlex.quote(str(each))}" for each in hidden),
            *(f"mkdir -p {path} && mount -c --bind /proc/self/fd/{number} {path}" for number, path in numbered),
            *(f"exec {number}<&-" for number, _ in numbered),
        ]
    )


def _programs() -> list[Path]:
    """Return the checkout and the directories of Python, without those that are below another one, or in /usr."""
    found = [Path(__file__).parents[1], Path(sys.prefix), Path(sys.base_prefix)]
    return [
        each
        for each in dict.fromkeys(found)
        if each != Path("/usr") and not any(above in found for above in each.parents)
    ]


def _closed(programs: Sequence[Path]) -> list[Path]:
    """Return the directories above the programs that other users may not enter."""
    above = {parent for each in programs for parent in each.parents}
    return sorted(each for each in above if not each.stat().st_mode & stat.S_IXOTH)
