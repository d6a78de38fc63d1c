"""Read the current offers of capacity from AWS.

Capacity Blocks and training plans have offerings with a time and a fee. On-demand capacity cannot be asked about: the
quota says how much would be allowed, and not how much there is. Spot has a score by zone, from 1 to 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from trainway.extensions.capacity.wanted import Wanted
from trainway.price.asked import ClientOf, asking
from trainway.price.live import spot_prices
from trainway.spec.facts.catalogue import CapacityKind
from trainway.spec.facts.prices import Item, PriceKind, listed_price

PERMISSIONS = (
    "ec2:DescribeAvailabilityZones, ec2:DescribeCapacityBlockOfferings, ec2:DescribeSpotPriceHistory, "
    "ec2:GetSpotPlacementScores, sagemaker:SearchTrainingPlanOfferings, and servicequotas:GetServiceQuota"
)
_AT_ONCE = 8
# Codes of answers that a Region does not sell such a thing, or that the account has not enabled the Region.
_NOT_THERE = {
    "AuthFailure",
    "InvalidParameterValue",
    "OptInRequired",
    "UnrecognizedClientException",
    "UnsupportedOperation",
}


@dataclass(frozen=True)
class Offer:
    """Available nodes: the way to buy them, their zones, their time, and their price.

    `usd` is the fee of the whole offer, and `usd_per_node_hour` the price of an hour of one node. Either is None if it
    is unknown. `id` is that of an offering that can be bought. `zones` are zone IDs, several if the offer has several
    parts.
    """

    kind: CapacityKind
    region: str
    zones: tuple[str, ...]
    count: int
    start: datetime | None = None
    end: datetime | None = None
    usd: Decimal | None = None
    usd_per_node_hour: Decimal | None = None
    id: str | None = None
    note: str = ""

    @property
    def hours(self) -> float | None:
        """Return how long the offer lasts, or None for capacity without an end."""
        return (self.end - self.start) / timedelta(hours=1) if self.start and self.end else None


@dataclass(frozen=True)
class Offers:
    """The offers, the cheapest of each kind first, and a sentence for each question that AWS did not answer."""

    offers: tuple[Offer, ...]
    unanswered: tuple[str, ...]


def find_offers(wanted: Wanted) -> Offers:
    """Return what AWS offers in each Region. Raises UsageError if AWS cannot be asked at all."""
    asked = [(kind, region) for kind in wanted.kinds for region in wanted.regions]
    with asking("offers of capacity", permissions=PERMISSIONS) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        clients = _clients(client, wanted)
        answers = list(pool.map(lambda each: _answer(clients, wanted, *each), asked))
    offers = [offer for found, _ in answers for offer in found]
    order = {kind: number for number, kind in enumerate(wanted.kinds)}
    offers.sort(key=lambda each: (order[each.kind], *_price(each), each.region, each.zones))
    return Offers(tuple(offers), tuple(said for _, said in answers if said))


def _price(offer: Offer) -> tuple[bool, Decimal, str]:
    usd = offer.usd_per_node_hour
    return usd is None, usd or Decimal(0), offer.start.isoformat() if offer.start else ""


def _clients(client: ClientOf, wanted: Wanted) -> Mapping[tuple[str, str], Any]:
    """Return clients of all services and Regions. boto3 makes clients in one thread only."""
    services = ("ec2", "sagemaker", "service-quotas")
    return {(service, region): client(service, region) for service in services for region in wanted.regions}


def _answer(
    clients: Mapping[tuple[str, str], Any], wanted: Wanted, kind: CapacityKind, region: str
) -> tuple[list[Offer], str]:
    from botocore.exceptions import ClientError, EndpointConnectionError

    try:
        return list(_FINDERS[kind](clients, wanted, region)), ""
    except ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if len(wanted.regions) == 1 and code not in _NOT_THERE:
            raise
        return [], f"{kind.value} in {region}: {message}"
    except EndpointConnectionError:
        return [], f"{kind.value} in {region}: the service has no endpoint there"


def _capacity_blocks(clients: Mapping[tuple[str, str], Any], wanted: Wanted, region: str) -> Iterator[Offer]:
    ec2 = clients["ec2", region]
    asked: dict[str, Any] = {
        "InstanceType": wanted.instance.name,
        "InstanceCount": wanted.count,
        "CapacityDurationHours": wanted.hours,
    }
    if wanted.start:
        asked["StartDateRange"] = wanted.start
    if wanted.end:
        asked["EndDateRange"] = wanted.end
    zones = zone_ids(ec2)
    for page in ec2.get_paginator("describe_capacity_block_offerings").paginate(**asked):
        for each in page["CapacityBlockOfferings"]:
            # An offering can be of several parts in several zones, each with a fee of its own.
            parts = each.get("CapacityBlockOfferingSegments") or [each]
            names = dict.fromkeys(part.get("AvailabilityZone", each.get("AvailabilityZone", "")) for part in parts)
            yield _priced(
                Offer(
                    CapacityKind.CAPACITY_BLOCK,
                    region,
                    tuple(zones.get(name, name) for name in names),
                    each["InstanceCount"],
                    each["StartDate"],
                    each["EndDate"],
                    Decimal(each["UpfrontFee"]) if each.get("CurrencyCode", "USD") == "USD" else None,
                    id=each["CapacityBlockOfferingId"],
                    note=""
                    if each.get("CurrencyCode", "USD") == "USD"
                    else f"{each['UpfrontFee']} {each['CurrencyCode']}",
                )
            )


def _training_plans(clients: Mapping[tuple[str, str], Any], wanted: Wanted, region: str) -> Iterator[Offer]:
    sagemaker, zones = clients["sagemaker", region], zone_ids(clients["ec2", region])
    asked: dict[str, Any] = {
        "InstanceType": f"ml.{wanted.instance.name}",
        "InstanceCount": wanted.count,
        "DurationHours": wanted.hours,
        "TargetResources": ["hyperpod-cluster"],
    }
    if wanted.start:
        asked["StartTimeAfter"] = wanted.start
    if wanted.end:
        asked["EndTimeBefore"] = wanted.end
    for each in sagemaker.search_training_plan_offerings(**asked)["TrainingPlanOfferings"]:
        parts = each.get("ReservedCapacityOfferings", [])
        names = dict.fromkeys(part["AvailabilityZone"] for part in parts if "AvailabilityZone" in part)
        dollars = each.get("CurrencyCode", "USD") == "USD"
        yield _priced(
            Offer(
                CapacityKind.TRAINING_PLAN,
                region,
                tuple(zones.get(name, name) for name in names),
                wanted.count,
                min((part["StartTime"] for part in parts), default=None),
                max((part["EndTime"] for part in parts), default=None),
                Decimal(each["UpfrontFee"]) if dollars and each.get("UpfrontFee") else None,
                id=each["TrainingPlanOfferingId"],
                note=f"in {len(parts)} parts, one after the other" if len(parts) > 1 else "",
            ),
            hours=Decimal(each.get("DurationHours", wanted.hours)),
        )


def _on_demand(clients: Mapping[tuple[str, str], Any], wanted: Wanted, region: str) -> Iterator[Offer]:
    price_kind = PriceKind.HYPERPOD if wanted.hyperpod else PriceKind.ON_DEMAND
    price = listed_price(Item(price_kind, region, wanted.instance.name))
    yield Offer(
        CapacityKind.ON_DEMAND,
        region,
        (),
        wanted.count,
        usd_per_node_hour=price.usd if price else None,
        note=f"{_quota(clients, wanted, CapacityKind.ON_DEMAND, region)}; only a launch shows whether AWS has them",
    )


def _spot(clients: Mapping[tuple[str, str], Any], wanted: Wanted, region: str) -> Iterator[Offer]:
    ec2 = clients["ec2", region]
    scores = ec2.get_spot_placement_scores(
        InstanceTypes=[wanted.instance.name],
        TargetCapacity=wanted.count,
        SingleAvailabilityZone=True,
        RegionNames=[region],
    )["SpotPlacementScores"]
    prices = {} if wanted.hyperpod else spot_prices(ec2, wanted.instance.name)
    quota = _quota(clients, wanted, CapacityKind.SPOT, region)
    for each in scores:
        zone = each["AvailabilityZoneId"]
        usd, _ = prices.get(zone, (None, None))
        yield Offer(
            CapacityKind.SPOT,
            region,
            (zone,),
            wanted.count,
            usd_per_node_hour=usd,
            note=f"score {each['Score']} of 10; {quota}",
        )


_FINDERS: Mapping[CapacityKind, Callable[[Mapping[tuple[str, str], Any], Wanted, str], Iterator[Offer]]] = {
    CapacityKind.CAPACITY_BLOCK: _capacity_blocks,
    CapacityKind.TRAINING_PLAN: _training_plans,
    CapacityKind.ON_DEMAND: _on_demand,
    CapacityKind.SPOT: _spot,
}


def _quota(clients: Mapping[tuple[str, str], Any], wanted: Wanted, kind: CapacityKind, region: str) -> str:
    """Return how many nodes the account's quota allows. EC2's quotas count vCPUs, SageMaker's instances."""
    from botocore.exceptions import ClientError

    code = wanted.instance.quota_codes.get(kind)
    service, each = "ec2", wanted.instance.vcpus
    if wanted.hyperpod:
        code = wanted.instance.hyperpod_quota_code if kind is CapacityKind.ON_DEMAND else None
        service, each = "sagemaker", 1
    if code is None:
        return "the code of its quota is not published"
    try:
        answer = clients["service-quotas", region].get_service_quota(ServiceCode=service, QuotaCode=code)
    except ClientError as error:
        return f"its quota {code} cannot be read: {error.response['Error']['Message']}"
    nodes = int(answer["Quota"]["Value"] // each)
    short = "" if nodes >= wanted.count else f", {wanted.count - nodes} too few"
    return f"the quota {code} allows {nodes} node{'' if nodes == 1 else 's'} in all{short}"


def zone_ids(ec2: Any) -> dict[str, str]:
    """Return the zone IDs by the account's own names of zones, in which offerings are given."""
    return {zone["ZoneName"]: zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}


def _priced(offer: Offer, hours: Decimal | None = None) -> Offer:
    """Return an offer with the price of an hour of one node, by its fee and duration."""
    lasts = hours or (Decimal(offer.hours) if offer.hours else None)
    if offer.usd is None or not lasts:
        return offer
    return replace(offer, usd_per_node_hour=offer.usd / (offer.count * lasts))
