"""What the training image can be built as."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import date

from trainway.spec.derived.image_build import needs_the_agent, own_base, variant_of, variants_with_nodes
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.versions import combination_names, combinations_with_the_agent, packages_of_combinations
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, image_rule, instance_types, rule
from trainway.spec.sections.image import AddOn
from trainway.spec.sections.orchestrator import Orchestrator

KEY: KeyPath = ("kubernetes", "parallel_image_pull")
ADD_ONS: dict[AddOn, str] = {
    "transformer-engine": "Transformer Engine",
    "nemo": "NeMo",
    "flash-attention": "FlashAttention",
}
# https://snapshot.ubuntu.com (read 2026-11-23)
FIRST_SNAPSHOT = date(2023, 3, 2)
NEURON_IMAGE = "public.ecr.aws/neuron/pytorch-training-neuronx"


@image_rule
def image_versions_are_a_combination(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.versions` is a name of trainway/spec/facts/versions.yaml."""
    name, known = platform.image.versions, combination_names()
    if name is not None and name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"name one of {', '.join(known)}, or add it there"
        yield ("image", "versions"), "there is no such combination in trainway/spec/facts/versions.yaml", remedy


@image_rule
def the_image_can_have_the_agent(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.versions` of a platform with the training operator is a combination that has HyperPod's elastic agent."""
    name, fitting = platform.image.versions, combinations_with_the_agent()
    if needs_the_agent(platform) and name in combination_names() and name not in fitting:
        reason = "HyperPod's elastic agent, which hyperpod.training_operator needs, does not support its PyTorch"
        yield ("image", "versions"), reason, f"write {' or '.join(fitting)}, or remove the key"


@image_rule
def the_image_is_for_the_nodes(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """The image's variant is for the accelerators of the nodes; a Neuron image begins with the SDK's own.

    https://github.com/aws-neuron/deep-learning-containers (read 2026-11-21)
    """
    if platform.image.uri or any(name not in catalogue for _, name in instance_types(platform)):
        return  # an image of the user's is what it is; a type has a rule of its own
    fitting = variants_with_nodes(platform, catalogue)
    if platform.image.variant and platform.image.variant not in fitting:
        reason = f"the node groups have {'accelerators of another kind' if 'cpu' not in fitting else 'no accelerators'}"
        yield ("image", "variant"), reason, f"write {' or '.join(fitting)}, or leave it out"
    elif variant_of(platform, catalogue) == "neuron" and platform.image.base is None:
        reason = "a Neuron image begins with the Neuron SDK's, and there is no telling which"
        remedy = (
            f"write as image.base a tag of {NEURON_IMAGE} with its digest, as `docker buildx imagetools inspect` says"
        )
        yield ("image", "base"), reason, remedy


@image_rule
def packages_are_not_older_than_the_base(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.refresh` is a day with a snapshot, and not earlier than the packages of the base image."""
    day = platform.image.refresh
    if day is None:
        return
    earliest, why = FIRST_SNAPSHOT, "Ubuntu has no earlier snapshots"
    if own_base(platform) is None:
        days = packages_of_combinations()
        earliest = days.get(platform.image.versions or "", min(days.values(), default=FIRST_SNAPSHOT))
        why = f"the base image is newer: its packages are those of {earliest}"
    if day < earliest:
        yield ("image", "refresh"), why, f"write {earliest} or a later day, or remove the key"


@image_rule
def add_ons_are_for_gpus(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Transformer Engine computes on NVIDIA's GPUs, and the kernels of NeMo and FlashAttention do.

    https://docs.nvidia.com/nemo/automodel/v0.7 (read 2026-11-21)
    """
    if not platform.image.add or any(name not in catalogue for _, name in instance_types(platform)):
        return
    variant = variant_of(platform, catalogue)
    if variant != "cuda":
        names = [ADD_ONS[each] for each in dict.fromkeys(platform.image.add)]
        compute, them = ("computes", "it") if len(names) == 1 else ("compute", "them")
        reason = f"{' and '.join(names)} {compute} on GPUs, and the image is for {variant}"
        yield ("image", "add"), reason, f"leave {them} out"


@image_rule
def add_ons_are_named_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """An add-on that stands twice was meant to be another one."""
    for index, name in enumerate(platform.image.add):
        if name in platform.image.add[:index]:
            yield ("image", "add", index), "it stands twice", "take one away"


@rule
def eks_alone_is_told_how_images_are_pulled(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Only EKS is told how nodes pull images; HyperPod has images of its own for nodes."""
    asked = platform.kubernetes is not None and KEY[-1] in platform.kubernetes.model_fields_set
    if asked and platform.orchestrator is not Orchestrator.EKS:
        reason = f"nodes of {platform.orchestrator.value} pull images as their image is made to"
        yield KEY, reason, "leave it out, or use the orchestrator eks"
