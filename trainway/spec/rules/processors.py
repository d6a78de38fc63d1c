"""The processors of nodes, for which the image and everything else that runs on nodes is built."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, instance_types, rule

# What container/Dockerfile, delivery/mirror.yaml, and trainway/spec/derived/node_packages.py are for.
ARCHITECTURE = "x86_64"


@rule
def nodes_have_the_processors_that_everything_is_built_for(
    platform: Platform, catalogue: Catalogue
) -> Iterator[Breach]:
    """Refuse every instance type with Arm processors: the training image is built for x86_64 alone.

    The GPUs of a P6e-GB200 UltraServer are also one NVLink domain across instances, and a job reaches the GPUs of other
    instances through an IMEX channel. On Kubernetes a ComputeDomain of NVIDIA's DRA driver makes the channel, and
    delivery/values/dra-driver-nvidia-gpu.yaml turns ComputeDomains off.
    https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html
    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html (both read 2026-11-22)
    """
    for key, name in instance_types(platform):
        if name not in catalogue or catalogue[name].architecture == ARCHITECTURE:
            continue  # an unknown type is reported by its own rule
        instance = catalogue[name]
        reason = (
            f"its processors are {instance.architecture}, and the training image and the node packages are built for "
            f"{ARCHITECTURE}"
        )
        if instance.accelerator and (instance.accelerator.nvlink_domain or 0) > instance.accelerator.count:
            reason += ". Its GPUs share NVLink with those of other instances, which needs a compute domain that the "
            reason += "platform does not set up"
        example = "p6-b200.48xlarge" if instance.accelerator and key[0] == "node_groups" else "m7i.2xlarge"
        yield key, reason, f"use a type with {ARCHITECTURE} processors, for example {example}"
