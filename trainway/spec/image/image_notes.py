"""What nobody verifies of a training image: versions that were not tested together, and a base of yours."""

from __future__ import annotations

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.versions import combination_named, versions_facts
from trainway.spec.image.compatibility import fabric_of, nccl_level
from trainway.spec.image.image_build import (
    combination_of,
    has_the_agent,
    keeps_base_packages,
    key_of_image,
    needs_the_agent,
    own_base,
    variant_of,
)
from trainway.spec.platform import Platform


def unverified(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """Return a sentence for each thing that neither `check` nor the build verifies."""
    return tuple(
        sentence for name in platform.image_names for sentence in _of_image(platform.of_image(name), catalogue)
    )


def _of_image(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    return (*_of_the_combination(platform, catalogue), *_of_the_base(platform, catalogue))


def _of_the_combination(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """Return a sentence about an NCCL that the plugin was not tested with, and one about what else is unknown."""
    if platform.image.uri or variant_of(platform, catalogue) != "cuda" or keeps_base_packages(platform, catalogue):
        return ()
    versions = versions_facts()
    chosen = combination_of(platform, versions)
    fabric = fabric_of(versions, chosen)
    what = f"{key_of_image(platform)}.versions: {chosen.name} of {chosen.made}"
    default, notes = combination_named(versions, versions.default), []
    if needs_the_agent(platform) and platform.image.versions is None and chosen != default:
        notes.append(
            f"{what}: HyperPod's elastic agent, which hyperpod.training_operator needs, supports no newer PyTorch. To "
            f"have one, write `{key_of_image(platform)}: {{versions: {versions.default}}}` and "
            f"`images: {{operator: {{versions: {chosen.name}}}}}`. Launch the operator's jobs with --image operator."
        )
    elif needs_the_agent(platform) and not has_the_agent(platform, versions):
        notes.append(
            f"{what} has no HyperPod elastic agent, which does not support PyTorch {chosen.pytorch}. Jobs of the kind "
            "HyperPodPyTorchJob need another image."
        )
    if fabric and nccl_level(fabric) == "compatible":
        tested = " or ".join(fabric.plugin.tested_with_nccl) or "no NCCL"
        notes.append(
            f"{what} runs NCCL {fabric.nccl}. AWS tested aws-ofi-nccl {fabric.plugin.version} with {tested}, and calls "
            f"it compatible with {fabric.plugin.nccl_from} and newer. Evidence: {chosen.evidence}"
        )
    if chosen.unknown and chosen != default:
        notes.append(f"{what}: {'; '.join(chosen.unknown)}.")
    return tuple(notes)


def _of_the_base(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    base, key = own_base(platform), key_of_image(platform)
    if base is None or not keeps_base_packages(platform, catalogue):
        return ()
    name = base.partition("@")[0]
    variant = variant_of(platform, catalogue)
    if variant == "neuron":
        return (f"{key}.base: the versions of the Neuron SDK and PyTorch in {name} are not checked against the nodes.",)
    what = f"the versions of PyTorch, CUDA, and NCCL are those of {name}"
    checked = "The build verifies that a program loads AWS's EFA beside them. " if variant == "cuda" else ""
    return (
        f"{key}.base_packages: {what}. {checked}Nothing checks that the nodes' driver supports them.",
        f"{key}.base_packages: `trainway verify` needs NCCL's tests, and the image has them only if the base does.",
    )
