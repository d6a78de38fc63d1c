"""What is wrong with a platform file on a day, and right on another."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from trainway.spec.facts.kubernetes_versions import kubernetes_versions
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import path_of_image
from trainway.spec.sections.capacity import CapacityBlock, TimedCapacity, minute

REFRESH: KeyPath = ("image", "refresh")


def expired(platform: Platform, today: date) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (key path, reason, remedy) if the Kubernetes version has no standard support on `today`, a day in UTC.

    A cluster has the upgrade policy STANDARD. EKS upgrades the control plane of such a cluster by itself when standard
    support ends, and the file would then ask for a downgrade.
    https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html (read 2026-11-22)
    """
    facts, version, orchestrator = kubernetes_versions(), platform.kubernetes_or_default.version, platform.orchestrator
    support = facts.eks.versions.get(version)
    # An adopted cluster can be in extended support, for which its owner pays.
    adopted = platform.adopted_cluster
    if not orchestrator.is_kubernetes or support is None:
        return
    if today < (support.extended_until if adopted else support.standard_until):
        return
    reason = f"standard support of Kubernetes {version} ended on {support.standard_until}, and EKS upgrades the cluster"
    if today >= support.extended_until:
        reason = f"Kubernetes {version} reached the end of its extended support on {support.extended_until}"
    newer = [
        each for each in facts.of(hyperpod=orchestrator.is_hyperpod) if facts.eks.versions[each].standard_until > today
    ]
    remedy = f"write one of {', '.join(newer)}, in quotes" if newer else "use a newer release of Trainway"
    yield platform.kubernetes_version_key, reason, "upgrade the cluster, and adopt it again" if adopted else remedy


def over(platform: Platform, today: date) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (key path, reason, remedy) for capacity that ended before `today`, a day in UTC."""
    for index, group in enumerate(platform.node_groups):
        capacity = group.capacity
        if isinstance(capacity, TimedCapacity) and capacity.end and capacity.end.date() < today:
            reason = f"the capacity ended at {minute(capacity.end)}, and no node can start with it"
            remedy = "write the capacity that follows it, or remove the group"
            yield ("node_groups", index, "capacity", "end"), reason, remedy


def not_sold_yet(platform: Platform, today: date) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (key path, reason, remedy) for a Capacity Block that starts later than EC2 sells any on `today`.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html (read 2026-11-22)
    """
    ahead = timedelta(weeks=service_facts().capacity_blocks.weeks_ahead)
    for index, group in enumerate(platform.node_groups):
        block = group.capacity
        if isinstance(block, CapacityBlock) and block.start and block.start.date() > today + ahead:
            reason = f"EC2 sells blocks that start within {ahead.days // 7} weeks, and this one would start later"
            yield ("node_groups", index, "capacity", "start"), reason, "write the start that the purchase names"


def schedules_of_the_past(platform: Platform, today: date) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (key path, reason, remedy) if HyperPod would patch nodes in a year before that of `today` alone."""
    asked = platform.hyperpod_or_default.patching
    year = asked.schedule.rstrip(")").split(" ")[-1] if asked and asked.schedule else ""
    if year.isdecimal() and int(year) < today.year:
        reason = f"the year {year} is over, so that nodes would never be patched"
        yield ("hyperpod", "patching", "schedule"), reason, "write * as the year"


def from_the_future(platform: Platform, today: date) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (key path, reason, remedy) if packages of an image are to be those of a day after `today`, a day in UTC."""
    for name in platform.image_names:
        day = platform.of_image(name).image.refresh
        if day and day > today:
            yield (
                path_of_image(name, REFRESH),
                f"Ubuntu has no snapshot of a day after today, {today}, in UTC",
                f"write {today} or an earlier day",
            )


# What is asked of a file on each day.
OF_A_DAY = (expired, over, not_sold_yet, schedules_of_the_past, from_the_future)


def of_a_day(platform: Platform, today: date) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield every (key path, reason, remedy) of `today`, a day in UTC."""
    for rule in OF_A_DAY:
        yield from rule(platform, today)
