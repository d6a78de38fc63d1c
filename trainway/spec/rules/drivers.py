"""The driver of GPU nodes supports the CUDA of the training image."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.drivers import old_drivers
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.drivers import driver_facts
from trainway.spec.facts.versions import combination_names, versions_facts
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, image_rule, instance_types


@image_rule
def the_driver_supports_the_cuda(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Nodes have a driver that the CUDA of the image supports, alone or with compatibility libraries.

    https://docs.nvidia.com/deploy/cuda-compatibility/ (read 2026-11-23)
    """
    if platform.image.versions not in (None, *combination_names()):
        return
    if any(name not in catalogue for _, name in instance_types(platform)):
        return  # both have a rule of their own
    for old in old_drivers(platform, catalogue, versions_facts(), driver_facts()):
        if old.is_bridged:
            continue
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
