"""The job that verifies nodes, the same on every target.

It is rendered like a training job: with the same image, devices, volumes, and options of torchrun (`many_nodes` of
trainway/launch/program/rank_launchers.py). Only the command and a part of the environment differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

MOST_BYTES = 8 * 2**30
"""Size of the largest all-reduce. P5 reaches its published bandwidth at this size, except for 2 % (all_reduce.yaml)."""
DCGM_LEVEL = 1
"""Level 1 of dcgmi's diagnostic takes seconds, 2 minutes, 3 a quarter of an hour, and 4 longer.

https://docs.nvidia.com/datacenter/dcgm/latest/reference/command-line-reference/dcgmi/dcgmi-diag.html (2026-11-21)
"""


def probe_command() -> tuple[str, ...]:
    """Return the command that starts a node's processes.

    torchrun reads its other options from PET_*, as for training.
    """
    return _command(probe_source())


def rates_command() -> tuple[str, ...]:
    """Return the command that starts a node's processes of the program that measures rates."""
    return _command(Path(__file__).with_name("rates_program.py").read_text(encoding="utf-8"))


def probe_source() -> str:
    """Return the source of the probe, which requires only Python and PyTorch."""
    return Path(__file__).with_name("probe.py").read_text(encoding="utf-8")


def _command(source: str) -> tuple[str, ...]:
    return ("torchrun", "--no-python", "python3", "-c", source)


def rates_environment(max_bytes: int = MOST_BYTES) -> Mapping[str, str]:
    """Return the settings of the program that measures rates: the size in bytes of the collectives of all nodes."""
    return {"TRAINWAY_RATES_MAX_BYTES": str(max_bytes)}


def probe_environment(
    directory: PurePosixPath, *, max_bytes: int = MOST_BYTES, dcgm_level: int = DCGM_LEVEL
) -> Mapping[str, str]:
    """Return the probe's settings: its directory, the largest all-reduce in bytes, and the level of dcgmi."""
    return {
        "TRAINWAY_PROBE_DIRECTORY": str(directory),
        "TRAINWAY_PROBE_MAX_BYTES": str(max_bytes),
        "TRAINWAY_PROBE_DCGM_LEVEL": str(dcgm_level),
    }
