"""List prices in US dollars, each with its source and date: prices.yaml.

A price that the file does not have is unknown. No price is derived from that of another Region, size, or service: the
prices of HyperPod, for example, are EC2's times 1.18, 1.20, or 1.25, depending on the type. price_bounds.py bounds
unknown ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from trainway.spec.facts.files import FACTS, read_facts

FILE = FACTS / "prices.yaml"
# The Region of a price that holds in all commercial Regions, and the beginnings of those that are not commercial.
EVERY = "every"
_OTHER_PARTITIONS = ("cn-", "us-gov-", "eusc-")


class PriceKind(StrEnum):
    """What a price is of: an instance by its way of sale, or a service."""

    ON_DEMAND = "on-demand"
    HYPERPOD = "hyperpod"
    CAPACITY_BLOCK = "capacity-block"
    SPOT = "spot"
    HYPERPOD_SPOT = "hyperpod-spot"
    TRAINING_PLAN = "training-plan"
    SERVICE = "service"


# What a service's price is for. A GB is that of AWS's bills. FSx and EBS bill a GiB of capacity as a GB.
SERVICE_UNITS = {
    "eks-cluster": "hour",
    "eks-cluster-extended": "hour",
    "eks-tier-xl": "hour",
    "eks-tier-2xl": "hour",
    "eks-tier-4xl": "hour",
    "eks-tier-8xl": "hour",
    "metrics-collector": "hour",
    "metrics-collected": "10 M samples",
    "metrics-samples": "10 M samples",
    "metrics-samples-next": "10 M samples",
    "nat-gateway": "hour",
    "nat-gateway-data": "GB",
    "public-ipv4": "hour",
    "interface-endpoint": "hour",
    "interface-endpoint-data": "GB",
    "gp3": "GB-month",
    "hyperpod-volume": "GB-month",
    "sagemaker-volume": "GB-month",
    "lustre-scratch-2": "GB-month",
    "lustre-persistent-2-125": "GB-month",
    "lustre-persistent-2-250": "GB-month",
    "lustre-persistent-2-500": "GB-month",
    "lustre-persistent-2-1000": "GB-month",
    "lustre-intelligent-tiering-throughput": "MB/s-month",
    "openzfs-single-az-storage": "GB-month",
    "openzfs-single-az-throughput": "MB/s-month",
    "openzfs-single-az-ha-storage": "GB-month",
    "openzfs-single-az-ha-throughput": "MB/s-month",
    "kms-key": "month",
    "s3-standard": "GB-month",
}


@dataclass(frozen=True)
class Item:
    """Something that has a price: an instance type or a service, in a Region."""

    kind: PriceKind
    region: str
    name: str

    @property
    def unit(self) -> str:
        """What one price is for: `hour`, `month`, `GB-month`, `MB/s-month`, or `GB`."""
        return SERVICE_UNITS[self.name] if self.kind is PriceKind.SERVICE else "hour"


class PriceSource(BaseModel):
    """Where a price was read, when, and the day or month of the price list that it is of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    title: str
    as_of: Annotated[str, BeforeValidator(str)] = Field(pattern=r"^\d{4}-\d\d(-\d\d)?$")
    read: date


@dataclass(frozen=True)
class Price:
    """US dollars for one unit of an item."""

    usd: Decimal
    source: PriceSource


PriceBook = Callable[[Item], Price | None]
"""A function from an item to its price, or None where no price is known."""


def _exact(value: Any) -> Any:
    # The shortest decimal that is the float is the one in the file.
    return Decimal(repr(value)) if isinstance(value, float) else value


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: PriceKind
    regions: tuple[str, ...] = Field(min_length=1)
    source: str
    usd: dict[str, Annotated[Decimal, BeforeValidator(_exact), Field(gt=0)]] = Field(min_length=1)


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: dict[str, PriceSource]
    prices: tuple[_Entry, ...]


@cache
def price_list(file: Path = FILE) -> dict[Item, Price]:
    """Return the prices in a file, by default Trainway's own. Each process reads it once.

    An item of `every` Region has that word for its Region. Raises ValueError for a second price of an item, and for a
    service without a unit.
    """
    read = _File.model_validate(read_facts(file))
    found: dict[Item, Price] = {}
    for entry in read.prices:
        for region in entry.regions:
            for name, usd in entry.usd.items():
                item = Item(entry.kind, region, name)
                if item in found:
                    raise ValueError(f"{file.name}: {item} has two prices")
                if entry.kind is PriceKind.SERVICE and name not in SERVICE_UNITS:
                    raise ValueError(f"{file.name}: {name} is no service with a unit")
                found[item] = Price(usd, read.sources[entry.source])
    return found


def listed_price(item: Item) -> Price | None:
    """Return the price of an item by prices.yaml, or None where it is unknown."""
    found = price_list().get(item)
    if found is None and not item.region.startswith(_OTHER_PARTITIONS):
        found = price_list().get(Item(item.kind, EVERY, item.name))
    return found


def listed_elsewhere(item: Item) -> dict[str, Price]:
    """Return the prices of the same thing in other Regions, by Region, in alphabetical order."""
    same = {
        each.region: price for each, price in price_list().items() if (each.kind, each.name) == (item.kind, item.name)
    }
    return {region: same[region] for region in sorted(same) if region not in (item.region, EVERY)}
