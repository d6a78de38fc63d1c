"""Security groups of yours that the platform uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.efa_rules import names_itself
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.problems import KeyPath


@check("ec2:DescribeSecurityGroups")
def security_groups(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each adopted security group is in the VPC, and has the rules for EFA that the file says it has."""
    existing = inquiry.platform.network.existing
    if existing is None:
        return
    jobs_use = inquiry.platform.storage.lustre
    lustre = jobs_use and jobs_use.existing
    nodes = existing.security_group
    wanted: list[tuple[str, KeyPath]] = []
    if nodes:
        wanted.append((nodes.id, ("network", "existing", "security_group", "id")))
    if lustre:
        wanted.append((lustre.security_group_id, ("storage", "lustre", "existing", "security_group_id")))
    if not wanted:
        return
    here = [{"Name": "vpc-id", "Values": [existing.vpc_id]}]
    pages = inquiry.aws.pages("ec2", "describe_security_groups", Filters=here)
    groups = {each["GroupId"]: each for page in pages for each in page["SecurityGroups"]}
    for identifier, key in wanted:
        if identifier not in groups:
            yield error(
                f"the VPC {existing.vpc_id} has no security group {identifier}",
                why="the platform uses it, and adds rules to it",
                fix="write the id of a group of this VPC",
                key=key,
            )
    if nodes and nodes.id in groups:
        yield from _for_efa(groups[nodes.id], from_itself=nodes.from_itself, to_itself=nodes.to_itself)


def _for_efa(group: Mapping[str, Any], *, from_itself: bool, to_itself: bool) -> Iterator[AccountFinding]:
    """Yield which rule is gone since the file was written: the deploy adds only those that the file lacks."""
    identifier = group["GroupId"]
    for key, said, rules in (
        ("from_itself", from_itself, group["IpPermissions"]),
        ("to_itself", to_itself, group["IpPermissionsEgress"]),
    ):
        if said and not names_itself(rules, identifier):
            direction = "from" if key == "from_itself" else "to"
            yield error(
                f"{identifier} does not allow everything {direction} itself, by a rule that names the group",
                why="EFA requires the rule, and the deploy does not add what the file says is there",
                fix=f"write {key}: false, so that the deploy adds the rule",
                key=("network", "existing", "security_group", key),
            )
