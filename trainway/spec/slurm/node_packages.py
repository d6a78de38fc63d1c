"""Packages that Slurm nodes install in addition to their image, for jobs in containers: delivery/node_packages.yaml."""

from __future__ import annotations

from typing import Final, Literal

from trainway.spec.platform import Platform

# Architecture for which the packages are compiled, by its name in the catalogue.
ARCHITECTURE: Final = "x86_64"

Containers = Literal["required", "wanted", "none"]


def node_containers(platform: Platform) -> Containers:
    """Return how nodes get enroot and pyxis: `required`, `wanted` or `none`, as delivery/scripts.sh describes them."""
    ways: dict[bool | None, Containers] = {True: "required", None: "wanted", False: "none"}
    return ways[platform.slurm_or_default.containers]
