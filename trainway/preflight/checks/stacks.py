"""Stacks and clusters that have the platform's names already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error

# A stack in one of these states takes no update:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html (read 2026-11-25)
STUCK: Final = {
    "ROLLBACK_FAILED": "aws cloudformation delete-stack --stack-name {}",
    "DELETE_FAILED": "aws cloudformation delete-stack --stack-name {}",
    "UPDATE_ROLLBACK_FAILED": "aws cloudformation continue-update-rollback --stack-name {}",
}


@check("cloudformation:DescribeStacks", "eks:DescribeCluster", "sagemaker:DescribeCluster")
def stacks(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The platform's stacks take an update, and no stack or cluster of somebody else has one of their names."""
    platform, region = inquiry.platform, inquiry.aws.region
    pages = inquiry.aws.pages("cloudformation", "describe_stacks")
    named = [
        each for page in pages for each in page["Stacks"] if str(each["StackName"]).startswith(f"{platform.name}-")
    ]
    ours = [each for each in named if str(each.get("Description", "")).startswith(f"Trainway {platform.name}:")]
    for each in named:
        name, status = each["StackName"], each["StackStatus"]
        if each not in ours:
            if name == f"{platform.name}-network":
                yield error(
                    f"another stack has the name {name}",
                    why="a deploy would change it into the platform's network",
                    fix="write another `name` in the file",
                    key=("name",),
                )
        elif status in STUCK:
            yield error(
                f"the stack {name} is {status}",
                why="CloudFormation cannot update a stack in this state",
                fix=f"{STUCK[status].format(name)} --region {region}; the stack's events show what failed",
            )
        elif status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
            yield error(f"the stack {name} is {status}", why="a deploy or a deletion runs", fix="wait until it ends")
    if not ours:
        yield from _clusters(inquiry)


def _clusters(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Yield which cluster has the name of one that the deploy would create."""
    platform = inquiry.platform
    for uses, service, what in (
        (platform.orchestrator.is_kubernetes, "eks", "an EKS cluster"),
        (platform.orchestrator.is_hyperpod, "sagemaker", "a HyperPod cluster"),
    ):
        if not uses or platform.adopted_cluster:
            continue
        absent = ["ResourceNotFoundException", "ResourceNotFound"]
        asked = {"name": platform.name} if service == "eks" else {"ClusterName": platform.name}
        if inquiry.aws.ask(service, "describe_cluster", absent=absent, **asked) is not None:
            yield error(
                f"{what} of the name {platform.name} exists, and no stack of the platform",
                why="the deploy creates a cluster of this name",
                fix="write another `name` in the file, or delete the cluster",
                key=("name",),
            )
