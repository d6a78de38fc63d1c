"""The rules of the fabric in a training image: NCCL, aws-ofi-nccl, and libfabric, by what their publishers promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from trainway.spec.facts.versions import Versions, release
from trainway.spec.image.compatibility import fabric_of, libfabric_level, nccl_level
from trainway.spec.problems import KeyPath

Breach = tuple[KeyPath, str, str]


def the_plugin_takes_its_libfabric(versions: Versions) -> Iterator[Breach]:
    """An installer carries a libfabric that its plugin was tested with, or that is in the plugin's range."""
    for index, installer in enumerate(versions.efa_installers):
        plugin = release(versions.aws_ofi_nccl, installer.aws_ofi_nccl)
        if plugin and libfabric_level(installer, plugin) is None:
            promised = _promised(plugin.tested_with_libfabric, plugin.libfabric_from)
            reason = f"aws-ofi-nccl {plugin.version} {promised}"
            yield ("efa_installers", index, "libfabric"), reason, "write what the installer carries, by AWS's changelog"


def the_plugin_takes_the_nccl(versions: Versions) -> Iterator[Breach]:
    """The NCCL of a combination was tested with the installer's plugin, or is in the range of the plugin."""
    for index, each in enumerate(versions.combinations):
        fabric = fabric_of(versions, each)
        if fabric is None or nccl_level(fabric):
            continue
        has = f"it names NCCL {each.nccl}" if each.nccl else f"PyTorch {each.pytorch} requires NCCL {fabric.nccl}"
        reason = (
            f"{has}, and aws-ofi-nccl {fabric.plugin.version}, which EFA installer {each.efa_installer} carries, "
            f"{_promised(fabric.plugin.tested_with_nccl, fabric.plugin.nccl_from)}"
        )
        yield ("combinations", index, "efa_installer"), reason, "name another installer, or another PyTorch"


def what_nobody_tested_has_evidence(versions: Versions) -> Iterator[Breach]:
    """A combination of an NCCL that is only called compatible says what else speaks for it."""
    for index, each in enumerate(versions.combinations):
        fabric = fabric_of(versions, each)
        if fabric and nccl_level(fabric) == "compatible" and each.evidence is None:
            reason = (
                f"aws-ofi-nccl {fabric.plugin.version} was not tested with NCCL {fabric.nccl}: AWS only calls it "
                f"compatible with {fabric.plugin.nccl_from} and newer"
            )
            remedy = "write as `evidence` who runs the pair, for example an image of a publisher, and the day"
            yield ("combinations", index, "efa_installer"), reason, remedy


def the_installer_has_a_checksum(versions: Versions) -> Iterator[Breach]:
    """A combination names no installer that the build could not verify."""
    for index, each in enumerate(versions.combinations):
        installer = release(versions.efa_installers, each.efa_installer)
        if installer and installer.sha256 is None:
            reason = f"the checksum of EFA installer {installer.version} is not known"
            remedy = "name another installer, or write its sha256 below efa_installers"
            yield ("combinations", index, "efa_installer"), reason, remedy


def another_nccl_is_another_one(versions: Versions) -> Iterator[Breach]:
    """A combination names an NCCL only in place of another one that PyTorch requires."""
    for index, each in enumerate(versions.combinations):
        wheel = release(versions.pytorch, each.pytorch)
        if wheel and wheel.nccl == each.nccl:
            yield ("combinations", index, "nccl"), f"PyTorch {wheel.version} requires this NCCL itself", "remove it"


FABRIC_RULES: Final[tuple[Callable[[Versions], Iterator[Breach]], ...]] = (
    the_plugin_takes_its_libfabric,
    the_plugin_takes_the_nccl,
    what_nobody_tested_has_evidence,
    the_installer_has_a_checksum,
    another_nccl_is_another_one,
)


def _promised(tested: tuple[str, ...], oldest: str | None) -> str:
    """Return the words for what a plugin was tested with, and the range that is called compatible."""
    words = [f"was tested with {' or '.join(tested)}"] if tested else []
    words += [f"is called compatible with {oldest} and newer"] if oldest else []
    return ", and ".join(words) or "has no release notes that say what it was tested with"
