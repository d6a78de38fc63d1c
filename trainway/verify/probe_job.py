"""The job that proves nodes: what every node of it runs, on every target.

It is rendered as a training job is: the same image, devices, volumes and options of torchrun (`many_nodes` of
trainway/launch/training_command.py); only the command and a part of the environment are others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

MOST_BYTES = 8 * 2**30
"""The largest all-reduce: what was published for P5 is reached at it, but for the last 2 % (all_reduce.yaml)."""
DCGM_LEVEL = 1
"""Level 1 of dcgmi's diagnostic takes seconds, 2 minutes, 3 a quarter of an hour, and 4 longer.

https://docs.nvidia.com/datacenter/dcgm/latest/reference/command-line-reference/dcgmi/dcgmi-diag.html (2026-11-21)
"""


def probe_command() -> tuple[str, ...]:
    """What starts a node's processes: torchrun reads the rest of its options from PET_*, as it does for training."""
    return ("torchrun", "--no-python", "python3", "-c", probe_source())


def probe_source() -> str:
    """The program, which needs Python and PyTorch and nothing of this project."""
    return Path(__file__).with_name("probe.py").read_text(encoding="utf-8")


def probe_environment(
    directory: PurePosixPath, *, max_bytes: int = MOST_BYTES, dcgm_level: int = DCGM_LEVEL
) -> Mapping[str, str]:
    """What the program is told: where to write and read, up to how many bytes to reduce, how deep dcgmi looks."""
    return {
        "TRAINWAY_PROBE_DIRECTORY": str(directory),
        "TRAINWAY_PROBE_MAX_BYTES": str(max_bytes),
        "TRAINWAY_PROBE_DCGM_LEVEL": str(dcgm_level),
    }
