"""The state of the platform's stacks."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.doctor.checks.table import check
from trainway.preflight.check import Inquiry
from trainway.preflight.checks.stacks import STUCK
from trainway.preflight.finding import AccountFinding, error, note, warning

UNDONE = ("UPDATE_ROLLBACK_COMPLETE", "ROLLBACK_COMPLETE", "CREATE_FAILED", "UPDATE_FAILED")


@check("cloudformation:DescribeStacks")
def deployed_stacks(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Every stack of the platform is as its last deploy made it: none failed, and none is being changed."""
    platform, region = inquiry.platform, inquiry.aws.region
    pages = inquiry.aws.pages("cloudformation", "describe_stacks")
    ours = [
        each
        for page in pages
        for each in page["Stacks"]
        if str(each.get("Description", "")).startswith(f"Trainway {platform.name}:")
    ]
    if not ours:
        why = f"account {inquiry.aws.number} has no stack of it in {region}"
        yield error(f"the platform {platform.name} is not deployed", why=why, fix="make deploy")
    for each in ours:
        name, status = each["StackName"], each["StackStatus"]
        reason = each.get("StackStatusReason") or "its events say why"
        if status in STUCK:
            fix = f"{STUCK[status].format(name)} --region {region}"
            yield error(f"the stack {name} is {status}", why=reason, fix=fix)
        elif status in UNDONE:
            fix = f"aws cloudformation describe-stack-events --stack-name {name} --region {region}; then `make deploy`"
            yield warning(f"the last change of the stack {name} was undone: it is {status}", why=reason, fix=fix)
        elif status.endswith("_IN_PROGRESS"):
            yield note(f"the stack {name} is {status}", why="a deploy or a deletion runs", fix="wait until it ends")
