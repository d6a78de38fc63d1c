"""Prices that AWS answers today: the Price List API, and EC2's newest Spot prices.

The Price List API has rows that look like the one that is asked for: Capacity Blocks are on-demand rows of $0, and
SageMaker has `ReservedCluster:` and `Train:` beside `Cluster:`. So all rows of a query are read, those of the usage
type are kept, and a price counts only if it is above zero and the only one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from trainway.price.asked import asking
from trainway.spec.facts.prices import Item, Price, PriceBook, PriceKind, PriceSource, listed_price

# Where the API answers for all commercial Regions (botocore 1.44.5, endpoints of api.pricing).
_REGION = "us-east-1"
_PERMISSIONS = "pricing:GetProducts and ec2:DescribeSpotPriceHistory"
_AT_ONCE = 8
# A Region's name in a usage type: USW2, or us-west-2 as KMS writes it.
_SHORT_NAME = r"(?:[A-Z0-9]+|[a-z]+(?:-[a-z]+)+-\d)"


@dataclass(frozen=True)
class PriceQuery:
    """What the Price List API is asked for an item: filters, and how the usage type of its row ends.

    Usage types begin with a short name of the Region, such as `USW2-`. In us-east-1, some services have none.
    """

    service: str
    usage: str
    filters: Mapping[str, str] = field(default_factory=dict)

    def is_of(self, usage_type: str) -> bool:
        """Return whether a usage type is the one of the query, after the name of a Region."""
        return re.fullmatch(rf"({_SHORT_NAME}-)?{re.escape(self.usage)}", usage_type) is not None


# https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html, and the usage types that public
# copies of the price list have (read 2026-11-25).
_EC2 = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
    "marketoption": "OnDemand",
}
_SERVICES = {
    "eks-cluster": PriceQuery("AmazonEKS", "AmazonEKS-Hours:perCluster"),
    "nat-gateway": PriceQuery("AmazonEC2", "NatGateway-Hours", {"productFamily": "NAT Gateway"}),
    "nat-gateway-data": PriceQuery("AmazonEC2", "NatGateway-Bytes", {"productFamily": "NAT Gateway"}),
    "public-ipv4": PriceQuery("AmazonVPC", "PublicIPv4:InUseAddress"),
    "interface-endpoint": PriceQuery("AmazonVPC", "VpcEndpoint-Hours", {"productFamily": "VpcEndpoint"}),
    "interface-endpoint-data": PriceQuery("AmazonVPC", "VpcEndpoint-Bytes", {"productFamily": "VpcEndpoint"}),
    "gp3": PriceQuery("AmazonEC2", "EBS:VolumeUsage.gp3", {"productFamily": "Storage", "volumeApiName": "gp3"}),
    "kms-key": PriceQuery("awskms", "KMS-Keys", {"productFamily": "Encryption Key"}),
    **{
        f"lustre-persistent-2-{tier}": PriceQuery(
            "AmazonFSx", f"Storage.SSD.{tier}", {"productFamily": "Storage", "fileSystemType": "Lustre"}
        )
        for tier in (125, 250, 500, 1000)
    },
}


def query_of(item: Item) -> PriceQuery | None:
    """Return what to ask for an item, or None for one that no query of the Price List API is known for."""
    match item.kind:
        case PriceKind.ON_DEMAND:
            return PriceQuery("AmazonEC2", f"BoxUsage:{item.name}", {"instanceType": item.name, **_EC2})
        case PriceKind.HYPERPOD:
            return PriceQuery("AmazonSageMaker", f"Cluster:ml.{item.name}", {"component": "Cluster"})
        case PriceKind.SERVICE:
            return _SERVICES.get(item.name)
        case _:
            return None


def live_prices(items: Iterable[Item]) -> PriceBook:
    """Return a price book with what AWS answers for these items now, and with the table's prices for all others.

    Raises UsageError if AWS cannot be asked.
    """
    wanted = sorted(set(items), key=lambda item: (item.kind, item.region, item.name))
    with asking("AWS's prices", permissions=_PERMISSIONS) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        clients = {
            ("pricing", _REGION): client("pricing", _REGION),
            **{("ec2", item.region): client("ec2", item.region) for item in wanted if item.kind is PriceKind.SPOT},
        }
        answers = dict(zip(wanted, pool.map(lambda item: _ask(clients, item), wanted), strict=True))
    return lambda item: answers.get(item) or listed_price(item)


def spot_prices(ec2: Any, instance_type: str) -> dict[str, tuple[Decimal, datetime]]:
    """Return the newest Spot price per hour of an instance type by zone id, and since when it holds.

    EC2 answers the price that holds at the start time. An older one would be lower or higher than what is paid now.
    """
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=[instance_type], ProductDescriptions=["Linux/UNIX"], StartTime=datetime.now(UTC)
    )
    newest: dict[str, tuple[Decimal, datetime]] = {}
    for page in pages:
        for each in page["SpotPriceHistory"]:
            zone = each.get("AvailabilityZoneId") or each["AvailabilityZone"]
            if zone not in newest or newest[zone][1] < each["Timestamp"]:
                newest[zone] = (Decimal(each["SpotPrice"]), each["Timestamp"])
    return newest


def _ask(clients: Mapping[tuple[str, str], Any], item: Item) -> Price | None:
    if item.kind is PriceKind.SPOT:
        return _spot(clients["ec2", item.region], item)
    query = query_of(item)
    return None if query is None else _listed(clients["pricing", _REGION], query, item.region)


def _spot(ec2: Any, item: Item) -> Price | None:
    """Return the highest of the zones' prices, so that no zone costs more than what is said."""
    newest = spot_prices(ec2, item.name)
    if not newest:
        return None
    usd, since = max(newest.values())
    title = f"EC2 DescribeSpotPriceHistory, the highest of {len(newest)} zones of {item.region}"
    url = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html"
    today = datetime.now(UTC).date()
    return Price(usd, PriceSource(url=url, title=title, as_of=since.date().isoformat(), read=today))


def _listed(pricing: Any, query: PriceQuery, region: str) -> Price | None:
    filters = {"regionCode": region, **query.filters}
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=query.service,
        Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in filters.items()],
        FormatVersion="aws_v1",
    )
    found = {
        (usd, product["publicationDate"][:10])
        for page in pages
        for product in map(json.loads, page["PriceList"])
        if query.is_of(product["product"]["attributes"].get("usagetype", ""))
        for usd in _rates(product)
        if usd > 0
    }
    if len({usd for usd, _ in found}) != 1:
        return None
    usd, published = max(found, key=lambda each: each[1])
    title = f"Price List API, {query.service} {query.usage} in {region}"
    url = f"https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/{query.service}/current/index.json"
    return Price(usd, PriceSource(url=url, title=title, as_of=published, read=datetime.now(UTC).date()))


def _rates(product: Mapping[str, Any]) -> Iterator[Decimal]:
    """Yield the prices of the first tier of a product in US dollars."""
    for offer in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in offer["priceDimensions"].values():
            if dimension.get("beginRange", "0") in ("0", "") and "USD" in dimension["pricePerUnit"]:
                yield Decimal(dimension["pricePerUnit"]["USD"])
