"""Where EC2 has the instance types today."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.rule import instance_types


@check("ec2:DescribeInstanceTypeOfferings")
def offerings(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """EC2 has each instance type in the zone of its nodes, by what it says today. It says nothing of free capacity."""
    platform = inquiry.platform
    named = list(instance_types(platform))
    pages = inquiry.aws.pages(
        "ec2",
        "describe_instance_type_offerings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": sorted({name for _, name in named})}],
    )
    offered = {(each["InstanceType"], each["Location"]) for page in pages for each in page["InstanceTypeOfferings"]}
    for key, name in named:
        group = platform.node_groups[key[1]] if isinstance(key[1], int) else None
        wanted = [platform.zone_of(group)] if group else list(platform.zones)
        if not any((name, zone) in offered for zone in wanted):
            there = sorted(zone for found, zone in offered if found == name)
            yield error(
                f"EC2 does not have {name} in {' or '.join(wanted)}",
                why=f"in {platform.region}, it has it in {', '.join(there)}" if there else "it is not in the Region",
                fix="write one of these zones" if there else "use another instance type or Region",
                key=key,
            )
