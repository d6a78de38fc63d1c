"""The accelerators of this node: those that the launcher states, and what the node has of them.

The launcher knows the instance type of the nodes, and describes its accelerators in the environment variable
TRAINWAY_ACCELERATORS, as JSON: {"count": 8, "instance_type": "p5.48xlarge", "name": "H100", "vendor": "nvidia"}.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from training.errors import UserError

VARIABLE = "TRAINWAY_ACCELERATORS"
# The numbered files are the devices. /dev/nvidiactl and the like are there for a single one, too.
_DEVICE_FILES = {"nvidia": re.compile(r"nvidia\d+"), "neuron": re.compile(r"neuron\d+")}
# NVIDIA's module prints "x86_64 Kernel Module  470.223.02" into a file of the kernel, and its open module prints "Open
# Kernel Module for x86_64  580.95.05". https://github.com/weaviate/Verba/issues/72 has such a file (read 2026-11-29).
_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class StatedAccelerators:
    """The accelerators of each node, as the launcher states them from its catalogue of instance types."""

    instance_type: str
    vendor: str
    name: str
    count: int

    def __str__(self) -> str:
        """Return the instance type and its accelerators."""
        return f"{self.instance_type} has {self.count} {self.name}"


class FoundAccelerators(NamedTuple):
    """What this node, or this container on it, has: the names of device files, and the version of NVIDIA's driver."""

    device_files: tuple[str, ...]
    driver: str | None

    def __str__(self) -> str:
        """Return both as parts of a sentence."""
        files = f"device files {', '.join(self.device_files)}" if self.device_files else "no device files"
        return f"{files}; NVIDIA driver {self.driver or 'not loaded'}"


def stated_accelerators() -> StatedAccelerators | None:
    """Return what the launcher states. None on a node without accelerators, and where no launcher knows the type.

    Raises:
        UserError: the variable has another form.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    try:
        said = json.loads(text)
        return StatedAccelerators(str(said["instance_type"]), said["vendor"], str(said["name"]), int(said["count"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{VARIABLE} is not a JSON object with instance_type, vendor, name, and count: {text!r}. `trainway launch` "
            "sets it. Remove it to start the job by hand"
        ) from error


def found_accelerators(vendor: str, root: Path = Path("/")) -> FoundAccelerators:
    """Return what this node has of a vendor's accelerators. `root` is the directory that has `dev` and `proc`."""
    pattern = _DEVICE_FILES.get(vendor)
    names = [each.name for each in (root / "dev").iterdir()] if (root / "dev").is_dir() else []
    numbered = [name for name in names if pattern is not None and pattern.fullmatch(name)]
    try:
        said = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        said = ""
    found = _DRIVER.search(said)
    files = sorted(numbered, key=lambda name: int(re.sub(r"\D", "", name)))
    return FoundAccelerators(tuple(f"/dev/{name}" for name in files), found[1] if found else None)
