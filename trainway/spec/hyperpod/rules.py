"""Rules about HyperPod: what it supports, and how its nodes get new images."""

from __future__ import annotations

import calendar
from collections.abc import Iterator

from trainway.spec.capacity.autoscaling import autoscaled_groups
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, instance_types, rule
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


KEY: KeyPath = ("hyperpod", "patching")
IN_BATCHES = ("batch", "wait_minutes", "rollback_alarms")


@rule
def patching_is_by_schedule_or_by_strategy(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """One of the two; a strategy is for EKS, has its own order and takes nothing back.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ami-auto-patching.html (read 2026-11-21)
    """
    asked = platform.hyperpod_or_default.patching
    if asked is None:
        return
    if (asked.schedule is None) == (asked.strategy is None):
        reason = "it says both when and how" if asked.schedule else "it does not say when"
        yield KEY, f"{reason} nodes are patched", "write a schedule, or a strategy, and not both"
    elif asked.strategy:
        for key in IN_BATCHES:
            if key in asked.model_fields_set:
                reason = "a strategy patches nodes as they fall idle, and does not take a patch back"
                yield (*KEY, key), reason, "leave it out, or write a schedule instead of the strategy"
    if asked.strategy and platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
        yield (*KEY, "strategy"), "HyperPod has it on EKS only", "write a schedule"


@rule
def a_schedule_comes(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The months of a schedule have its day."""
    asked = platform.hyperpod_or_default.patching
    fields = asked.schedule.removeprefix("cron(").split(" ") if asked and asked.schedule else []
    if len(fields) > 3 and fields[2].isdecimal() and fields[3].isdecimal():
        # A leap year has the longest February.
        longest = calendar.monthrange(2028, int(fields[3]))[1]
        if int(fields[2]) > longest:
            reason = f"month {fields[3]} has {longest} days, so that nodes would never be patched"
            yield (*KEY, "schedule"), reason, "write another day, or ? and a day of the week"


@rule
def slurm_is_patched_all_at_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Batches, and with them rollback, are for EKS.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-release-ami-update.html (read 2026-11-21)
    """
    asked = platform.hyperpod_or_default.patching
    if asked is None or platform.orchestrator is not Orchestrator.HYPERPOD_SLURM:
        return
    for key in IN_BATCHES:
        if key in asked.model_fields_set:
            reason = "under Slurm, HyperPod updates all nodes of a group at once"
            yield (*KEY, key), reason, "leave it out, and choose a time without jobs"


@rule
def an_image_version_is_of_hyperpods_image(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Versions count the images that HyperPod makes for EKS; a group has one of those or one of its own.

    ImageReleaseVersion in the registry's schema of AWS::SageMaker::Cluster, as cfn-lint 1.58.0 carries it, and
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html
    (read 2026-11-21)
    """
    for index, group in enumerate(platform.node_groups):
        if group.image_version is None:
            continue
        key: KeyPath = ("node_groups", index, "image_version")
        if platform.orchestrator is not Orchestrator.HYPERPOD_EKS:
            reason = f"{platform.orchestrator.value} has no versions of HyperPod's images"
            yield key, reason, "remove the key, or name an AMI as image_id"
        elif group.image_id:
            yield key, "the group has an image of yours, as image_id", "remove one of the two"
