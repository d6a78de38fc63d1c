"""What nobody verifies of a training image: versions that were not tested together, and a base of yours."""

from __future__ import annotations

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.versions import versions_facts
from trainway.spec.image.compatibility import fabric_of, nccl_level
from trainway.spec.image.image_build import combination_of, keeps_base_packages, key_of_image, own_base, variant_of
from trainway.spec.platform import Platform


def unverified(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """Return a sentence for each thing that neither `check` nor the build verifies."""
    return tuple(
        sentence for name in platform.image_names for sentence in _of_image(platform.of_image(name), catalogue)
    )


def _of_image(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    return (*_of_the_fabric(platform, catalogue), *_of_the_base(platform, catalogue))


def _of_the_fabric(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """Return a sentence about an NCCL that the image's plugin was not tested with, and the evidence for it."""
    if platform.image.uri or variant_of(platform, catalogue) != "cuda" or keeps_base_packages(platform, catalogue):
        return ()
    chosen = combination_of(platform, versions_facts())
    fabric = fabric_of(versions_facts(), chosen)
    if fabric is None or nccl_level(fabric) != "compatible":
        return ()
    tested = " or ".join(fabric.plugin.tested_with_nccl)
    return (
        f"{key_of_image(platform)}.versions: {chosen.name} runs NCCL {fabric.nccl}. AWS tested aws-ofi-nccl "
        f"{fabric.plugin.version} with {tested}, and calls it compatible with {fabric.plugin.nccl_from} and newer. "
        f"Evidence: {chosen.evidence}",
    )


def _of_the_base(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    base, key = own_base(platform), key_of_image(platform)
    if base is None or not keeps_base_packages(platform, catalogue):
        return ()
    name = base.partition("@")[0]
    if variant_of(platform, catalogue) == "neuron":
        return (f"{key}.base: the versions of the Neuron SDK and PyTorch in {name} are not checked against the nodes.",)
    what = f"the versions of PyTorch, CUDA, NCCL, aws-ofi-nccl, and libfabric are those of {name}"
    return (
        f"{key}.base_packages: {what}. Nothing checks that they go together, or that the nodes' driver supports them.",
        f"{key}.base_packages: `trainway verify` needs NCCL's tests, and the image has them only if the base does.",
    )
