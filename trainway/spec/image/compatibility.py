"""What the publishers promise of the versions of NCCL, libfabric, and aws-ofi-nccl in one image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from trainway.spec.facts.versions import Combination, EfaInstaller, Plugin, Versions, release

# tested: the publisher names the pair. compatible: the publisher names a range that has it.
Promise = Literal["tested", "compatible"]


class Fabric(NamedTuple):
    """The NCCL that runs in the images of a combination, and the installer and plugin that carry it over EFA."""

    nccl: str
    installer: EfaInstaller
    plugin: Plugin


def fabric_of(versions: Versions, combination: Combination) -> Fabric | None:
    """Return the fabric of a combination, or None if a release of it is not in the file."""
    wheel = release(versions.pytorch, combination.pytorch)
    installer = release(versions.efa_installers, combination.efa_installer)
    plugin = installer and release(versions.aws_ofi_nccl, installer.aws_ofi_nccl)
    if not (wheel and installer and plugin):
        return None
    return Fabric(combination.nccl or wheel.nccl, installer, plugin)


def level(version: str, tested: Sequence[str], oldest: str | None) -> Promise | None:
    """Return what a publisher promises of a version, or None without a promise.

    `tested` are the versions that the publisher tested, and `oldest` begins the range that is called compatible.
    """
    if version in tested:
        return "tested"
    return "compatible" if oldest is not None and not is_older(version, oldest) else None


def nccl_level(fabric: Fabric) -> Promise | None:
    """Return what AWS promises of the plugin with the NCCL."""
    return level(fabric.nccl, fabric.plugin.tested_with_nccl, fabric.plugin.nccl_from)


def libfabric_level(installer: EfaInstaller, plugin: Plugin) -> Promise | None:
    """Return what AWS promises of the plugin with the libfabric of an installer."""
    return level(installer.libfabric, plugin.tested_with_libfabric, plugin.libfabric_from)


def gin_lacks(fabric: Fabric, gdrcopy: str) -> str | None:
    """Return what GPU-initiated networking (GIN) of NCCL lacks in an image, or None if the image has all of it."""
    gin = fabric.plugin.gin
    if gin is None:
        return f"aws-ofi-nccl {fabric.plugin.version} is not documented for GIN"
    if is_older(fabric.nccl, gin.nccl_from):
        return f"NCCL {gin.nccl_from} or newer, and the image has {fabric.nccl}"
    if is_older(gdrcopy, gin.gdrcopy_from):
        return f"GDRCopy {gin.gdrcopy_from} or newer, and the image has {gdrcopy}"
    return None


def gda_lacks(fabric: Fabric) -> str | None:
    """Return what the backend of GIN in the GPU's kernels (GDA) lacks in an image that has GIN, or None."""
    gin, libfabric = fabric.plugin.gin, fabric.installer.libfabric
    if gin is None or not is_older(libfabric, gin.gda_libfabric_from):
        return None
    return f"libfabric {gin.gda_libfabric_from} or newer, and the image has {libfabric}"


def is_older(version: str, than: str) -> bool:
    """Return whether a version is older than another, by their numbers, which is enough for releases."""
    one, other = (tuple(map(int, re.findall(r"\d+", each))) for each in (version, than))
    return one < other
