"""Estimate prices that no source has from above, by prices that are known.

A bound is no price. It is the answer to "how much can this cost?" of a person who decides before AWS's bill is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from trainway.spec.facts.prices import Item, Price, PriceKind, PriceSource, listed_elsewhere, listed_price

# Each price that is known in two Regions is at most this many times what the price of the one and of the yardstick in
# both say. Each price of HyperPod that is known is at most this many times EC2's. A test compares them all.
MARGIN: Final = Decimal("1.25")
# An instance type whose price is known in most Regions, and tells how much dearer one is than another.
YARDSTICK: Final = "m7i.large"
# What AWS sells for a time or takes back costs no more than what it sells on demand.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-requests.html: a Spot instance costs at most the on-demand
# price by default. https://aws.amazon.com/ec2/capacityblocks/pricing/ has less for each type (both read 2026-11-25).
_ON_DEMAND: Final = {
    PriceKind.HYPERPOD: (PriceKind.ON_DEMAND, MARGIN),
    PriceKind.HYPERPOD_SPOT: (PriceKind.HYPERPOD, Decimal(1)),
    PriceKind.TRAINING_PLAN: (PriceKind.HYPERPOD, Decimal(1)),
    PriceKind.SPOT: (PriceKind.ON_DEMAND, Decimal(1)),
    PriceKind.CAPACITY_BLOCK: (PriceKind.ON_DEMAND, Decimal(1)),
}
# Volumes of SageMaker's other parts cost 1.4 times as much as those of EC2. HyperPod's have no published price.
_DEARER: Final = {"hyperpod-volume": "sagemaker-volume"}
_WORDS: Final = {
    PriceKind.ON_DEMAND: "EC2's price on demand",
    PriceKind.HYPERPOD: "HyperPod's price on demand",
}


@dataclass(frozen=True)
class PriceBound:
    """US dollars that one unit of an item costs at most, by estimate, what that follows from, and its source."""

    usd: Decimal
    by: str
    source: PriceSource


def bound_of(item: Item) -> PriceBound | None:
    """Return the lowest bound of an unknown price, or None where nothing is known that bounds it."""
    return min((*_in_region(item), *_in_others(item)), key=lambda bound: bound.usd, default=None)


def _in_region(item: Item) -> Iterator[PriceBound]:
    """Yield the bound by what costs more in the same Region."""
    if item.kind is PriceKind.SERVICE:
        if item.name in _DEARER:
            yield from _by(replace(item, name=_DEARER[item.name]), Decimal(1), "that of SageMaker's other volumes")
    elif item.kind in _ON_DEMAND:
        dearer, times = _ON_DEMAND[item.kind]
        yield from _by(replace(item, kind=dearer), times, _WORDS[dearer])


def _by(dearer: Item, times: Decimal, words: str) -> Iterator[PriceBound]:
    if price := listed_price(dearer):
        yield PriceBound(price.usd * times, f"{words}, {_told(price)}{_more(times)}", price.source)
    elif bound := bound_of(dearer):
        yield PriceBound(bound.usd * times, f"{words}, from {bound.by}{_more(times)}", bound.source)


def _in_others(item: Item) -> Iterator[PriceBound]:
    """Yield the bounds by the same thing in other Regions, scaled by what EC2 costs in both."""
    here = _yardstick(item.region)
    for region, price in listed_elsewhere(item).items():
        if here is not None and (there := _yardstick(region)) is not None:
            usd = price.usd * max(Decimal(1), here / there) * MARGIN
            dearer = f", by what {YARDSTICK} costs in both Regions" if here > there else ""
            yield PriceBound(usd, f"that of {region}, {_told(price)}{dearer}{_more(MARGIN)}", price.source)


def _yardstick(region: str) -> Decimal | None:
    price = listed_price(Item(PriceKind.ON_DEMAND, region, YARDSTICK))
    return None if price is None else price.usd


def _told(price: Price) -> str:
    return f"{price.usd:f} ({price.source.as_of})"


def _more(times: Decimal) -> str:
    return ", and a quarter more" if times == MARGIN else ""
