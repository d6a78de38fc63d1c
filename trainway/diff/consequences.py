"""Tell what people and running jobs notice of a deploy, beside what each resource costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainway.diff.account import AwsAccount
from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.costs import nodes_of
from trainway.diff.names import logical_name
from trainway.diff.tokens import StackTemplate
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.spec.deployment import creation
from trainway.spec.platform import Platform

NODEGROUP: Final = "AWS::EKS::Nodegroup"
# How a stack of a platform begins its description.
_DESCRIBED: Final = re.compile(r"Trainway ([a-z0-9-]+):")


def consequences(
    diffs: Sequence[ResourceDiff],
    platform: Platform,
    wanted: Mapping[str, StackTemplate],
    teams_before: Sequence[str],
) -> tuple[str, ...]:
    """Return sentences about what a deploy does to people and running jobs.

    `wanted` are the templates of the file, and `teams_before` the teams of the last deploy.
    """
    return (
        *_teams(diffs, platform, teams_before),
        *_ways_out(diffs),
        *_shorter_times(diffs),
        *_upgrade(diffs, wanted),
    )


def platforms_beside(account: AwsAccount, platform: str) -> tuple[str, ...]:
    """Return a sentence about other platforms in the account and Region, for the first deploy of a platform."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        pages = account.client("cloudformation").get_paginator("describe_stacks").paginate()
        described = [str(stack.get("Description", "")) for page in pages for stack in page["Stacks"]]
    except (BotoCoreError, ClientError):
        return ()
    names = sorted({found[1] for each in described if (found := _DESCRIBED.match(each))} - {platform})
    if not names:
        return ()
    are, go = ("is", "goes") if len(names) == 1 else ("are", "go")
    return (
        f"{', '.join(names)} {are} deployed in this account and Region, and {go} on costing. With the name {platform}, "
        "the file is a platform beside it: a name cannot change, and nothing of the other moves",
    )


def _teams(diffs: Sequence[ResourceDiff], platform: Platform, before: Sequence[str]) -> Iterator[str]:
    """Yield what jobs of teams lose that have left the file, or whose role goes."""
    now = {team.name for team in platform.teams}
    left = [team for team in before if team not in now]
    if left:
        names, their = _listed(left), "its" if len(left) == 1 else "their"
        leaves, queue = ("leaves", "queue takes") if len(left) == 1 else ("leave", "queues take")
        yield (
            f"{names} {leaves} the platform: {their} {queue} no more jobs, and what waits there waits for good. Data "
            f"stays. Let the jobs end first, or stop them: `trainway status --team {left[0]}` lists them"
        )
    if lost := sorted({name for each in diffs if (name := _role_of_jobs(each, platform.name))}):
        yield (
            f"running jobs of {_listed(lost)} lose their role, and with it the bucket, secrets, and images: they fail "
            "when they read or save there"
        )


def _role_of_jobs(each: ResourceDiff, platform: str) -> str | None:
    """Return the namespace or the team whose jobs lose a role by a change."""
    properties = each.before.get("Properties", {})
    if each.action is not Action.DELETED:
        return None
    if each.kind == "AWS::EKS::PodIdentityAssociation" and properties.get("ServiceAccount") == SERVICE_ACCOUNT:
        return str(properties["Namespace"])
    described = re.fullmatch(rf"Slurm jobs of {re.escape(platform)} for (.+)", str(properties.get("Description", "")))
    return described[1] if described and each.kind == "AWS::IAM::Role" else None


def _ways_out(diffs: Sequence[ResourceDiff]) -> Iterator[str]:
    if any(each.kind == "AWS::EC2::NatGateway" and each.action is Action.DELETED for each in diffs):
        yield (
            "nodes that run lose their way to the internet with the NAT gateway: in running jobs, pip, Hugging Face, "
            "trackers, and Git fail from then on. Let these jobs end first (docs/closed-network.md)"
        )


def _shorter_times(diffs: Sequence[ResourceDiff]) -> Iterator[str]:
    """Yield which old objects S3 deletes because a rule of a bucket keeps them for fewer days.

    A rule applies to objects that are there, too.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-expire-general-considerations.html (read 2026-11-30)
    """
    for each in diffs:
        if each.kind != "AWS::S3::Bucket" or each.action is not Action.CHANGED:
            continue
        before, after = _days_of_versions(each.before), _days_of_versions(each.after)
        for prefix, days in before.items():
            if after.get(prefix, days) < days:
                where = f"below {prefix} " if prefix else ""
                yield (
                    f"S3 deletes objects {where}in {logical_name(each.id.logical_id)} that were deleted or overwritten "
                    f"more than {after[prefix]} days ago. Until now they can be restored for {days} days: restore "
                    "first what you need"
                )


def _days_of_versions(bucket: Mapping[str, Any]) -> dict[str, int]:
    """Return the days for which a bucket keeps deleted and overwritten objects, by the prefix of the rule."""
    rules = bucket.get("Properties", {}).get("LifecycleConfiguration", {}).get("Rules", ())
    return {
        str(rule.get("Prefix", "")): int(kept["NoncurrentDays"])
        for rule in rules
        if (kept := rule.get("NoncurrentVersionExpiration"))
    }


def _upgrade(diffs: Sequence[ResourceDiff], wanted: Mapping[str, StackTemplate]) -> Iterator[str]:
    """Yield what an upgrade of Kubernetes leaves to further deploys, with the minutes of the longest one."""
    versions = [
        edit
        for each in diffs
        if each.kind == "AWS::EKS::Cluster" and each.action is Action.CHANGED
        for edit in each.edits
        if edit.path == ("Version",)
    ]
    for edit in versions:
        counts = [nodes_of(each) or 0 for each in _groups(wanted)]
        minutes = max(counts, default=0) * creation.durations()[creation.NODES].minutes
        yield (
            f"EKS replaces the API servers of {edit.before} by those of {edit.after}, which nobody can undo. Jobs run "
            f"on. The nodes of {len(counts)} groups and the add-ons keep their versions: `trainway upgrade --check` "
            f"lists the two deploys that follow. That of the nodes takes about {minutes} min for the largest group, "
            "one node after the other"
        )


def _groups(wanted: Mapping[str, StackTemplate]) -> Iterator[dict[str, Any]]:
    for template in wanted.values():
        yield from (each for each in template["Resources"].values() if each["Type"] == NODEGROUP)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
