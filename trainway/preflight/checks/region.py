"""The Region and its zones, as the account has them."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath


@check("ec2:DescribeAvailabilityZones")
def region(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The account has each Availability Zone of the platform file, and each zone is available."""
    platform, aws = inquiry.platform, inquiry.aws
    found = aws.ask("ec2", "describe_availability_zones", AllAvailabilityZones=True) or {}
    zones = {each["ZoneId"]: each for each in found["AvailabilityZones"]}
    for key, zone in zones_of_file(platform):
        if zone not in zones:
            yield error(
                f"account {aws.number} has no zone {zone}",
                why=f"the zones of {platform.region} in this account are {', '.join(sorted(zones))}",
                fix="write one of them",
                key=key,
            )
        elif zones[zone].get("OptInStatus") == "not-opted-in":
            group = zones[zone].get("GroupName", zone)
            yield error(
                f"account {aws.number} has not opted in to the zone {zone}",
                why="an account cannot use a Local Zone before it has opted in to its group",
                fix=f"aws ec2 modify-availability-zone-group --region {platform.region} --group-name {group} "
                "--opt-in-status opted-in",
                key=key,
            )
        elif zones[zone].get("State", "available") != "available":
            yield error(
                f"the zone {zone} is {zones[zone]['State']}",
                why="AWS creates nothing new in a zone that is not available",
                fix="write another zone, or wait",
                key=key,
            )


def zones_of_file(platform: Platform) -> Iterator[tuple[KeyPath, str]]:
    """Yield each zone of the file once, and where it stands first. A Local Zone stands at a node group alone."""
    yield from ((("zones", index), zone) for index, zone in enumerate(platform.zones))
    seen = set(platform.zones)
    for index, group in enumerate(platform.node_groups):
        if group.zone and group.zone not in seen:
            seen.add(group.zone)
            yield ("node_groups", index, "zone"), group.zone
