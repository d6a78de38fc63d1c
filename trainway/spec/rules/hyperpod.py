"""What HyperPod can be asked for."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.autoscaling import autoscaled_groups
from trainway.spec.derived.collection import Collector, collector_of
from trainway.spec.derived.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, instance_types, rule
from trainway.spec.sections.orchestrator import Orchestrator


@rule
def a_volume_key_can_be_used(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A customer's key encrypts volumes of its own Region.

    https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-cmk.html (read 2026-11-21)
    """
    arn = platform.hyperpod_or_default.volume_key
    if arn is None:
        return
    key: KeyPath = ("hyperpod", "volume_key")
    region = arn.split(":")[3]
    if region != platform.region:
        reason = f"the key is in {region}, and the volumes are in {platform.region}"
        yield key, reason, f"name a key of {platform.region}; of a multi-Region key, its replica there"


@rule
def hyperpods_metrics_can_be_made(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod's observability is installed on a node that is large enough for it."""
    if collector_of(platform) is not Collector.HYPERPOD_ADDON:
        return
    key: KeyPath = ("hyperpod", "observability")
    if any(name not in catalogue for _, name in instance_types(platform)):
        return  # reported by its own rule; there is nothing to compare
    needed = service_facts().hyperpod.observability_vcpus
    sure = [min(each.vcpus for each in types_of(group, catalogue)) for group in platform.node_groups if group.count]
    if max(sure, default=0) < needed:
        reason = f"HyperPod installs it on a node with {needed} vCPUs or more, and the deploy makes none"
        yield key, reason, "remove the key, or give a group of 4xlarge or larger a count of 1 or more"


@rule
def spaces_can_fetch_their_images(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The templates of SageMaker Spaces allow images of a public registry only.

    https://docs.aws.amazon.com/sagemaker/latest/dg/customization.html (read 2026-11-24)
    """
    if platform.hyperpod_or_default.spaces and platform.network.is_closed:
        reason = "the images of SageMaker Spaces are in public.ecr.aws, which a closed network does not reach"
        yield ("hyperpod", "spaces"), reason, "remove the key, and start a workspace: docs/workspace.md"


@rule
def karpenter_has_what_it_needs(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod's Karpenter has groups to make nodes of, and node recovery beside it.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html (read 2026-11-21)
    """
    asked = platform.hyperpod_or_default
    key: KeyPath = ("hyperpod", "autoscaling")
    if asked.autoscaling and not asked.node_recovery:
        reason = "HyperPod adds and removes nodes by demand only where it also replaces those that fail"
        yield key, reason, "leave out node_recovery, or autoscaling"
    if asked.autoscaling and platform.orchestrator is Orchestrator.HYPERPOD_EKS and not autoscaled_groups(platform):
        reason = "Karpenter makes nodes of groups that begin without any, and there is none on demand or on Spot"
        yield key, reason, "give such a group a count of 0, and a max_count"


@rule
def only_hyperpod_waits_for_a_number_of_nodes(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A group that is given up unless enough nodes come is one that HyperPod provisions continuously.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-eks.html
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-slurm.html (both read 2026-11-21)
    """
    for index, group in enumerate(platform.node_groups):
        if group.min_count and not platform.orchestrator.is_hyperpod:
            reason = f"{platform.orchestrator.value} keeps the nodes that it gets, however few"
            yield ("node_groups", index, "min_count"), reason, "leave it out, or use an orchestrator of HyperPod's"


@rule
def hyperpod_offers_the_types(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod has every instance type that one of its groups asks for."""
    if not platform.orchestrator.is_hyperpod:
        return
    for key, name in instance_types(platform):
        managed_by_eks = key[0] == "kubernetes"
        if name in catalogue and catalogue[name].hyperpod_name is None and not managed_by_eks:
            yield key, "SageMaker HyperPod does not offer this type", "choose another type, or the orchestrator eks"
