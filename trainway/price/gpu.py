"""What an hour of a GPU costs, by node group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainway.price.run import node_price
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Accelerator, Catalogue
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class GpuPrice:
    """The price of an accelerator of a node group, in US dollars per hour.

    `usd` is None if the price is unknown, and nothing bounds it. `sentence` says where it comes from. `accelerators`
    are those of the group after the deploy, and at least those of one node.
    """

    group: str
    accelerator: Accelerator
    accelerators: int
    usd: float | None
    sentence: str


def gpu_prices(platform: Platform, catalogue: Catalogue) -> tuple[GpuPrice, ...]:
    """Return the prices of the node groups with accelerators. A group of several types has that of the first one."""
    return tuple(_prices(platform, catalogue))


def _prices(platform: Platform, catalogue: Catalogue) -> Iterator[GpuPrice]:
    for group in platform.node_groups:
        instance = types_of(group, catalogue)[0]
        if accelerator := instance.accelerator:
            price = node_price(platform, group.name, instance.name)
            hour = price.bound if price.usd_per_hour is None else price.usd_per_hour
            usd = None if hour is None else hour / accelerator.count
            if usd is None:
                sentence = f"GPUs of {group.name} have no dollars: {price.sentence(1)}"
            else:
                most = "at most about " if price.usd_per_hour is None else ""
                sentence = f"a GPU of {group.name} costs {most}${usd:,.2f} an hour ({price.sentence(1)})"
            yield GpuPrice(group.name, accelerator, accelerator.count * max(1, group.count), usd, sentence)


def mean_usd(prices: Sequence[GpuPrice]) -> float | None:
    """Return the mean of the known prices of accelerators, or None if none is known."""
    known = [(each.usd, each.accelerators) for each in prices if each.usd is not None]
    return sum(usd * count for usd, count in known) / sum(count for _, count in known) if known else None
