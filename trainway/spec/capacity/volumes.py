"""Sizes of the volumes of nodes that no section of the platform file describes, in GiB."""

from __future__ import annotations

# System pods write little. The image of the system nodes is a few GiB.
SYSTEM_VOLUME_GIB = 100
# The controller and the login node of Slurm: code, environments, and logs of many users.
HEAD_VOLUME_GIB = 500
