"""Compare the table of Regions, zones, and types with EC2's answers: `python -m trainway.spec.refresh_offerings`.

Prints one line per difference. With `--write`, offerings.json then has what EC2 answered, for the types of the
catalogue. Regions that the account has not enabled are not asked. The exit status is 1 if there are differences, 0 if
there are none, and 2 if EC2 did not answer. Prices are not compared: the Price List has them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.offerings import FILE, ByFamily, Offerings, as_text, by_family, load_offerings

SOURCE = {
    "url": "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html",
    "title": "Answers of EC2 DescribeAvailabilityZones and DescribeInstanceTypeOfferings (zones, offered)",
}


@dataclass(frozen=True)
class Answers:
    """What EC2 said of the Regions that were asked."""

    regions: frozenset[str]
    """Every Region that EC2 named, enabled in the account or not."""
    zones: Mapping[str, frozenset[str]]
    """The zones of each Region that was asked. Local Zones and Wavelength Zones are not among them."""
    offered: Mapping[str, frozenset[str]]
    """The zones of those Regions in which EC2 has an instance type."""


def ask(types: Collection[str]) -> Answers:
    """Ask EC2 about instance types in every Region that the account has enabled.

    Raises UsageError without credentials, a Region, or a network.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(connect_timeout=10, retries={"total_max_attempts": 3})
    zones, offered = dict[str, frozenset[str]](), dict[str, set[str]]()
    try:
        answered = boto3.client("ec2", config=config).describe_regions(AllRegions=True)["Regions"]
        enabled = [each["RegionName"] for each in answered if each.get("OptInStatus") != "not-opted-in"]
        for region in sorted(enabled):
            client = boto3.client("ec2", region_name=region, config=config)
            found = client.describe_availability_zones()["AvailabilityZones"]
            zones[region] = frozenset(
                each["ZoneId"] for each in found if each.get("ZoneType", "availability-zone") == "availability-zone"
            )
            # Ask for all instance types and select below: moto does not match the wildcards of a filter.
            pages = client.get_paginator("describe_instance_type_offerings")
            for page in pages.paginate(LocationType="availability-zone-id"):
                for each in page["InstanceTypeOfferings"]:
                    if each["InstanceType"] in types:
                        offered.setdefault(each["InstanceType"], set()).add(each["Location"])
    except (BotoCoreError, ClientError) as error:
        raise usage_error(
            "EC2 could not be asked for its zones",
            why=str(error),
            fix="set AWS_DEFAULT_REGION, and credentials that may call ec2:DescribeRegions, "
            "ec2:DescribeAvailabilityZones, and ec2:DescribeInstanceTypeOfferings, or AWS_PROFILE",
        ) from None
    regions = frozenset(each["RegionName"] for each in answered)
    return Answers(regions, zones, {name: frozenset(found) for name, found in offered.items()})


def differences(table: Offerings, answers: Answers, types: Iterable[str]) -> Iterator[str]:
    """Yield a line for each Region, zone, or offering of one of the instance types that only one of the two has."""
    for region in sorted(answers.regions - set(table.zones)):
        yield f"{region}: the table does not have this Region"
    for region, zones in sorted(answers.zones.items()):
        ours = set(table.zones.get(region, ()))
        yield from (f"{zone}: the table does not have this zone of {region}" for zone in sorted(zones - ours))
        yield from (f"{zone}: EC2 does not have this zone of {region}" for zone in sorted(ours - zones))
    asked = frozenset[str]().union(*answers.zones.values())
    for name in sorted({*types, *answers.offered}):
        known, theirs = table.offered.of(name), answers.offered.get(name, frozenset[str]())
        yield from (f"{name}: the table does not have it in {zone}" for zone in sorted((theirs - known) & asked))
        yield from (f"{name}: EC2 does not have it in {zone}" for zone in sorted((known - theirs) & asked))


def refreshed(table: Mapping[str, Any], answers: Answers, types: Iterable[str], day: str) -> str:
    """Return the content of offerings.json with what EC2 answered about instance types.

    Regions that were not asked keep what they have.
    """
    asked = frozenset[str]().union(*answers.zones.values())
    zones = dict.fromkeys(answers.regions, frozenset[str]()) | table["zones"] | answers.zones
    known = ByFamily(table["offered"])
    offered = by_family(
        {name: (known.of(name) - asked) | answers.offered.get(name, frozenset()) for name in {*types, *answers.offered}}
    )
    prices = {name: table[name] for name in ("zones", "local_zones", "offered", "on_demand", "hyperpod")}
    others = [source for source in table["sources"] if source["url"] != SOURCE["url"]]
    return as_text([SOURCE | {"read": day}, *others], prices | {"zones": zones, "offered": offered})


def main(words: Sequence[str]) -> int:
    """Print the differences; the exit status says whether there are any."""
    table = load_offerings()
    try:
        answers = ask(load_catalogue())
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    found = list(differences(table, answers, load_catalogue()))
    print(*found, sep="\n", end="\n" if found else "")
    if "--write" in words:
        today = datetime.now(UTC).date().isoformat()
        written = json.loads(FILE.read_text(encoding="utf-8"))
        FILE.write_text(refreshed(written, answers, load_catalogue(), today), encoding="utf-8")
    absent = sorted(set(table.zones) - set(answers.zones))
    counted = f"{len(answers.zones)} Regions compared, {len(found)} differences"
    print(f"{counted}; not asked: {', '.join(absent) or 'none'}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
