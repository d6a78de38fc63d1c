"""Rules about the training image: what it can be built as and from, its copies, and the nodes that run it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import date

from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.deep_learning_containers import deep_learning_containers
from trainway.spec.facts.drivers import driver_facts
from trainway.spec.facts.versions import (
    combination_names,
    combinations_with_the_agent,
    packages_of_combinations,
    versions_facts,
)
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.image.drivers import old_drivers
from trainway.spec.image.image_build import needs_the_agent, own_base, variant_of, variants_with_nodes
from trainway.spec.image.image_reference import ecr_repository_of
from trainway.spec.partition import partition_of
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, image_rule, instance_types, rule
from trainway.spec.sections.image import DEVEL, AddOn
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.slurm.node_packages import ARCHITECTURE

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


@rule
def an_image_can_have_the_agent(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """An image of a platform with the training operator has a combination with HyperPod's elastic agent."""
    if not needs_the_agent(platform):
        return
    names = [platform.of_image(each).image.versions for each in platform.image_names]
    fitting = combinations_with_the_agent()
    if all(name in combination_names() and name not in fitting for name in names):
        reason = "HyperPod's elastic agent, which hyperpod.training_operator needs, does not support its PyTorch"
        remedy = f"add `images: {{operator: {{versions: {fitting[-1]}}}}}` for the operator's jobs, or remove the key"
        yield ("image", "versions"), reason, remedy


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


@image_rule
def a_base_of_aws_is_in_its_account(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A base of AWS's Deep Learning Containers is in the account that has them in the Region that it names."""
    found = ecr_repository_of(own_base(platform) or "")
    accounts = deep_learning_containers().accounts
    if found is None or found.account not in accounts.values():
        return
    account = accounts.get(found.region)
    if account is None:
        regions = [region for region, each in accounts.items() if each == found.account]
        reason = f"AWS's Deep Learning Containers are not known to be in {found.region}"
        yield ("image", "base"), reason, f"name the registry of another Region, for example {regions[0]}"
    elif account != found.account:
        reason = f"AWS's Deep Learning Containers in {found.region} are in account {account}"
        yield ("image", "base"), reason, f"write {account}.dkr.ecr.{found.region}.amazonaws.com/…"


@image_rule
def a_toolkit_is_for_gpus(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """`image.base: devel` adds the CUDA toolkit to the image."""
    if platform.image.base != DEVEL or any(name not in catalogue for _, name in instance_types(platform)):
        return
    if (variant := variant_of(platform, catalogue)) != "cuda":
        reason = f"{DEVEL} adds the CUDA toolkit, and the image is for {variant}"
        yield ("image", "base"), reason, "remove it, or write variant: cuda on a platform with GPUs"


@image_rule
def packages_are_kept_of_a_base(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.base_packages: kept` is for a base that has PyTorch, and for nothing that would replace its packages."""
    if platform.image.base_packages != "kept":
        return
    key = ("image", "base_packages")
    if own_base(platform) is None:
        yield key, "the combination's base has no Python packages to keep", "name a base with PyTorch as image.base"
    elif platform.image.add:
        reason = f"{' and '.join(platform.image.add)} would replace packages of the base"
        yield key, reason, "remove image.add, and take a base that has them"
    elif platform.image.versions:
        reason = "the versions are those of the base, and no combination's"
        yield ("image", "versions"), reason, "remove it, or write base_packages: replaced"


@image_rule
def a_login_is_for_a_base_outside_of_ecr(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.base_login` logs in to the registry of the base, and the build's own role does so in ECR."""
    base = own_base(platform)
    if platform.image.base_login and base and ecr_repository_of(base):
        reason = "image.base is in ECR, where the build logs in with its role"
        remedy = "remove it; for an image of another account, the policy of its repository lets this account pull"
        yield ("image", "base_login"), reason, remedy


@image_rule
def copies_are_elsewhere(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.replicate` names another Region or another account."""
    wanted = platform.image.replicate
    if wanted is None or wanted.accounts:
        return
    if set(wanted.regions) <= {platform.region}:
        reason = f"the image is in {platform.region} already, and no other Region or account is named"
        yield ("image", "replicate"), reason, "name a Region or an account, or remove the key"


@image_rule
def copies_are_in_the_partition(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Credentials of a partition, such as China's, are unknown in the others."""
    for index, region in enumerate(platform.image.replicate.regions if platform.image.replicate else ()):
        if partition_of(region) != partition_of(platform.region):
            reason = f"roles of {platform.region} have no rights there"
            remedy = "copy the image by hand with `trainway image promote --from`, from a platform there"
            yield ("image", "replicate", "regions", index), reason, remedy


@image_rule
def a_closed_network_reaches_no_other_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """VPC endpoints of ECR answer for their own Region."""
    if not platform.network.is_closed or platform.image.replicate is None:
        return
    for index, region in enumerate(platform.image.replicate.regions):
        if region != platform.region:
            reason = f"builds of a closed network do not reach the registry in {region}"
            remedy = "remove it, and copy the image from outside with `trainway image promote --from`"
            yield ("image", "replicate", "regions", index), reason, remedy


@rule
def the_default_image_has_its_own_section(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`images` has no image of the name that the section `image` has."""
    if DEFAULT_IMAGE in platform.images:
        reason = f"{DEFAULT_IMAGE} is the name of the image that the section `{DEFAULT_IMAGE}` describes"
        yield ("images", DEFAULT_IMAGE), reason, "give it another name, or write its keys below `image`"


@rule
def a_group_names_an_image_of_the_platform(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image` of a node group is a name of `images`."""
    names = platform.image_names
    for index, group in enumerate(platform.node_groups):
        if group.image is not None and group.image not in names:
            close = difflib.get_close_matches(group.image, names, n=1)
            remedy = f"did you mean {close[0]}?" if close else "describe it below `images`, or remove the key"
            yield ("node_groups", index, "image"), f"there is no image {group.image} in `images`", remedy


@image_rule
def the_driver_supports_the_cuda(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Nodes have a driver that the CUDA of the image supports. The image has no compatibility libraries.

    https://docs.nvidia.com/deploy/cuda-compatibility/ (read 2026-11-23)
    """
    if platform.image.versions not in (None, *combination_names()):
        return
    if any(name not in catalogue for _, name in instance_types(platform)):
        return  # both have a rule of their own
    for old in old_drivers(platform, catalogue, versions_facts(), driver_facts()):
        key = "image_version" if platform.orchestrator.is_hyperpod else "name"
        ami = f"version {old.ami}" if platform.orchestrator.is_hyperpod else f"release {old.ami} in the lock"
        reason = (
            f"its AMI, {ami}, has NVIDIA driver {old.driver}, and CUDA {old.cuda} of the training image requires "
            f"{old.oldest_branch} or newer"
        )
        yield ("node_groups", old.group_index, key), reason, _remedy(platform, old.group)


def _remedy(platform: Platform, group: str) -> str:
    if platform.orchestrator.is_hyperpod:
        return "write a newer version of HyperPod's AMI, or remove the key"
    return (
        f"remove {group} from `ami_releases` in the lock, run `trainway upgrade --group {group}`, and commit the lock; "
        "the deploy then replaces the nodes"
    )


@rule
def arm_nodes_have_what_is_built_for_arm(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Allow Arm processors for Slurm's controller and login nodes, and for CPU nodes of Kubernetes with your own image.

    The deploy builds the training image for x86_64. On Kubernetes, a node group without accelerators can have Arm
    processors if its jobs use an image of yours. System nodes run the operators, and not all of their images are known
    to be for Arm. Slurm's compute nodes share virtual environments, and install packages for x86_64.

    The GPUs of a P6e-GB200 UltraServer are also one NVLink domain across instances, and a job reaches the GPUs of other
    instances through an IMEX channel. On Kubernetes a ComputeDomain of NVIDIA's DRA driver makes the channel, and
    delivery/values/dra-driver-nvidia-gpu.yaml turns ComputeDomains off.
    https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html
    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html (both read 2026-11-22)
    """
    for key, name in instance_types(platform):
        if name not in catalogue or catalogue[name].architecture == ARCHITECTURE:
            continue  # an unknown type is reported by its own rule
        if needed := _lacks(platform, key, catalogue[name]):
            yield key, f"its processors are {catalogue[name].architecture}, and {needed[0]}", needed[1]


def _lacks(platform: Platform, key: KeyPath, instance: Instance) -> tuple[str, str] | None:
    """Return why nodes cannot have Arm processors, and the remedy, or None if they can."""
    another = f"use a type with {ARCHITECTURE} processors, for example "
    if key[0] == "slurm":
        return None
    if key[0] == "kubernetes":
        reason = f"not every image that runs on system nodes is known to be for {instance.architecture}"
        return reason, another + "m7i.2xlarge"
    if instance.accelerator is not None:
        reason = f"the training image is built for {ARCHITECTURE}"
        if (instance.accelerator.nvlink_domain or 0) > instance.accelerator.count:
            reason += ". Its GPUs share NVLink with those of other instances, which needs a compute domain that the "
            reason += "platform does not set up"
        return reason, another + "p6-b200.48xlarge"
    if platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
        reason = f"the packages and virtual environments that compute nodes share are for {ARCHITECTURE}"
        return reason, another + "m7i.2xlarge"
    group = platform.node_groups[int(key[1])]
    image = group.image or DEFAULT_IMAGE
    section = platform.image if image == DEFAULT_IMAGE else platform.images.get(image)
    if section is None or section.uri is not None:
        return None  # an unknown name of an image is reported by its own rule
    remedy = (
        f"describe an image of yours for {instance.architecture} as `images: {{NAME: {{uri: …}}}}`, and write "
        f"`image: NAME` in the group, or {another}m7i.2xlarge"
    )
    return f"the image that the deploy builds for its jobs is for {ARCHITECTURE}", remedy
