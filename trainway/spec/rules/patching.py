"""How HyperPod's nodes come to new images."""

from __future__ import annotations

import calendar
from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator

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
