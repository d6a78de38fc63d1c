"""The processors of nodes, for which the image and everything else that runs on nodes is built."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.node_packages import ARCHITECTURE
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, instance_types, rule
from trainway.spec.sections.orchestrator import Orchestrator


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
