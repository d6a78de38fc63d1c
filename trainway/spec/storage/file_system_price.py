"""The price of a Lustre file system in words, so that nobody pays for two without knowing it."""

from __future__ import annotations

from typing import Final

from trainway.spec.facts.price_bounds import bound_of
from trainway.spec.facts.prices import Item, PriceKind, listed_price

PRICES: Final = "https://aws.amazon.com/fsx/lustre/pricing/"


def monthly_price(region: str, capacity_gib: int | None, throughput_mbps_per_tib: int | None) -> str:
    """Return the monthly price of the storage of a Lustre file system, by the price list that `plan` uses.

    A price that is not known in the Region has the bound that `plan` prints. Without a capacity in GiB, the text names
    the page with the prices. A file system without a throughput in MB/s per TiB is a scratch one.
    """
    if capacity_gib is None:
        return f"by throughput and by what it holds ({PRICES})"
    name = f"lustre-persistent-2-{throughput_mbps_per_tib}" if throughput_mbps_per_tib else "lustre-scratch-2"
    item = Item(PriceKind.SERVICE, region, name)

    if (known := listed_price(item)) is not None:
        return f"${known.usd * capacity_gib:,.0f} a month (list price of {known.source.as_of})"
    if (bound := bound_of(item)) is not None:
        return f"unknown in {region}, at most about ${bound.usd * capacity_gib:,.0f} a month ({bound.by})"
    return f"unknown ({PRICES})"
