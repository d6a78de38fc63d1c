"""Changes of a platform that make its nodes cheaper, and that the same jobs fit.

A change is a candidate if the platform with it breaks no rule. It is an answer if the prices before and after are
known. Lines beside the nodes are not compared: they are small, and often unknown in another Region.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from trainway.spec.cost.price import node_item
from trainway.spec.facts.catalogue import CapacityKind, Catalogue, Instance
from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.prices import Item, PriceBook
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.rules import RULES
from trainway.spec.sections.capacity import CapacityBlock, Reservation, capacity_kind
from trainway.spec.sections.node_group import NodeGroup

# A block to be bought: the rules look at the group's type and zone, and not at the ID.
_SOME_BLOCK = "cr-00000000000000000"
# What was paid in advance cannot be given back. A reservation can be canceled at any time.
_KEPT = ("capacity-block", "training-plan")
# Of the thousand types without accelerators, those that differ in vCPUs and memory alone. Variants with disks or more
# bandwidth cost more, and serve other needs.
_PLAIN = re.compile(r"[mcr][6-8][ai]\.\d*x?large$")


@dataclass(frozen=True)
class Candidate:
    """A change that fits: in words, the platform with it, and what one gives up."""

    what: str
    platform: Platform
    gives_up: str


@dataclass(frozen=True)
class Cheaper:
    """A cheaper change: US dollars per hour of all nodes with it, and how much less that is."""

    what: str
    gives_up: str
    usd_per_hour: Decimal
    saves: Decimal


@dataclass(frozen=True)
class Comparison:
    """The nodes' price per hour, or None if it is unknown, what is cheaper, and what has no price.

    The cheapest change comes first.
    """

    usd_per_hour: Decimal | None
    cheaper: tuple[Cheaper, ...]
    unpriced: tuple[str, ...]


def candidates(platform: Platform, catalogue: Catalogue) -> tuple[Candidate, ...]:
    """Return the changes of one thing that the same jobs fit, whatever they cost."""
    found = [*_other_capacities(platform, catalogue), *_other_types(platform, catalogue), *_other_regions(platform)]
    return tuple(each for each in found if _is_valid(each.platform, catalogue))


def items_of(platform: Platform) -> Iterator[tuple[Item, int]]:
    """Yield what the nodes of each group are bought as, and their number."""
    for group in platform.node_groups:
        if group.count:
            yield node_item(platform, group, group.instance_type), group.count


def compare(platform: Platform, found: Sequence[Candidate], prices: PriceBook) -> Comparison:
    """Return which of the changes make the nodes cheaper."""
    now = _price(platform, prices)
    priced = [(each, _price(each.platform, prices)) for each in found]
    cheaper = [
        Cheaper(each.what, each.gives_up, usd, now - usd)
        for each, usd in priced
        if now is not None and usd is not None and usd < now
    ]
    unpriced = tuple(each.what for each, usd in priced if usd is None)
    return Comparison(now, tuple(sorted(cheaper, key=lambda each: each.usd_per_hour)), unpriced)


def as_text(comparison: Comparison, most: int = 5) -> str:
    """Return the comparison in sentences, with the cheapest changes."""
    if comparison.usd_per_hour is None:
        lines = ["Nothing can be compared: the price of the platform's own nodes is not known."]
    elif not comparison.cheaper:
        now = f"The nodes cost ${comparison.usd_per_hour:,.2f} an hour."
        lines = [f"{now} No cheaper change that fits has a known price."]
    else:
        lines = [f"The nodes cost ${comparison.usd_per_hour:,.2f} an hour. Cheaper, for the same jobs:"]
        lines += [
            f"  ${each.usd_per_hour:,.2f} (${each.saves:,.2f} less): {each.what}; {each.gives_up}"
            for each in comparison.cheaper[:most]
        ]
        lines.append("By list prices of different days: `trainway plan` of the changed file has the day of each.")
    if comparison.unpriced:
        shown = ", ".join(comparison.unpriced[:3])
        rest = len(comparison.unpriced) - 3
        lines.append(f"No price is known for: {shown}{f', and {rest} more' if rest > 0 else ''}.")
    return "\n".join(lines)


def as_document(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON, in US dollars per hour."""
    return {
        "usd_per_hour": None if comparison.usd_per_hour is None else float(comparison.usd_per_hour),
        "cheaper": [
            {
                "what": each.what,
                "gives_up": each.gives_up,
                "usd_per_hour": float(each.usd_per_hour),
                "saves_usd_per_hour": float(each.saves),
            }
            for each in comparison.cheaper
        ],
        "unpriced": list(comparison.unpriced),
    }


def _price(platform: Platform, prices: PriceBook) -> Decimal | None:
    found = [(prices(item), count) for item, count in items_of(platform)]
    if any(price is None for price, _ in found):
        return None
    return sum((price.usd * count for price, count in found if price), Decimal(0))


def _is_valid(platform: Platform, catalogue: Catalogue) -> bool:
    return not any(True for rule in RULES for _ in rule(platform, catalogue))


def _with_group(platform: Platform, index: int, **changes: Any) -> Platform:
    groups = list(platform.node_groups)
    groups[index] = groups[index].model_copy(update=changes)
    return platform.model_copy(update={"node_groups": tuple(groups)})


def _groups(platform: Platform) -> Iterator[tuple[int, NodeGroup]]:
    """Yield the groups with nodes that were not paid in advance."""
    for index, group in enumerate(platform.node_groups):
        if group.count and capacity_kind(group.capacity) not in _KEPT:
            yield index, group


def _other_capacities(platform: Platform, catalogue: Catalogue) -> Iterator[Candidate]:
    for index, group in _groups(platform):
        kinds = catalogue[group.instance_type].capacity_kinds
        if CapacityKind.SPOT in kinds and group.capacity != "spot":
            yield Candidate(
                f"{group.name} on Spot",
                _with_group(platform, index, capacity="spot"),
                "AWS can take the nodes back within two minutes",
            )
        if CapacityKind.CAPACITY_BLOCK in kinds and not platform.orchestrator.is_hyperpod:
            block = CapacityBlock(capacity_block=_SOME_BLOCK)
            yield Candidate(
                f"{group.name} in a Capacity Block",
                _with_group(platform, index, capacity=block),
                "the block is paid in advance, and ends: `trainway capacity` shows offerings",
            )


def _other_types(platform: Platform, catalogue: Catalogue) -> Iterator[Candidate]:
    for index, group in _groups(platform):
        own = catalogue[group.instance_type]
        for name in catalogue:
            if own.accelerator is None and not _PLAIN.match(name):
                continue
            instance = catalogue[name]
            count = _count_that_fits(own, group.count, instance)
            if instance.name == own.name or count is None:
                continue
            most = max(count, math.ceil(group.largest * count / group.count))
            changes = {"instance_type": instance.name, "or_types": (), "count": count, "max_count": most}
            # A reservation is of one type.
            changes |= {"capacity": "on-demand"} if isinstance(group.capacity, Reservation) else {}
            yield Candidate(
                f"{count} × {instance.name} for {group.name}",
                _with_group(platform, index, **changes),
                f"{count * instance.ranks} ranks in place of {group.count * own.ranks}",
            )


def _count_that_fits(own: Instance, count: int, other: Instance) -> int | None:
    """Return how many nodes of another type hold and compute at least as much, or None if none do.

    An accelerator is of the same vendor, has at least as much memory, and a known rate. Nodes that use EFA among each
    other keep as much bandwidth in all.
    """
    chip, another = own.accelerator, other.accelerator
    if chip is None or another is None:
        if chip or another or own.architecture != other.architecture:
            return None
        return max(math.ceil(count * own.vcpus / other.vcpus), math.ceil(count * own.memory_gib / other.memory_gib))
    if chip.vendor != another.vendor or another.memory_gib < chip.memory_gib:
        return None
    if not chip.bf16_tflops or not another.bf16_tflops:
        return None
    fits = max(
        math.ceil(count * chip.count / another.count) if another.bf16_tflops <= chip.bf16_tflops else 1,
        math.ceil(count * chip.count * chip.bf16_tflops / (another.count * another.bf16_tflops)),
        math.ceil(count * chip.count * chip.memory_gib / (another.count * another.memory_gib)),
    )
    if count > 1 and own.efa_interfaces and fits > 1:
        if not other.efa_interfaces:
            return None
        fits = max(fits, math.ceil(count * own.network_gbps / other.network_gbps))
    return fits


def _other_regions(platform: Platform) -> Iterator[Candidate]:
    """Yield the platform in each other Region that has all types in as many zones. Nothing that exists can move."""
    bought = {capacity_kind(group.capacity) for group in platform.node_groups}
    if (
        platform.network.existing
        or bought & {*_KEPT, "reservation"}
        or any(group.zone for group in platform.node_groups)
    ):
        return
    offerings, refused = load_offerings(), service_facts().eks.refused_zones
    types = {name for group in platform.node_groups for name in group.instance_types}
    for region, zones in sorted(offerings.zones.items()):
        there = set(zones).intersection(*(offerings.zones_with(name, region) for name in types))
        there -= set(refused) if platform.orchestrator.is_kubernetes else set()
        if region == platform.region or not there:
            continue
        first = sorted(there)[0]
        rest = [zone for zone in zones if zone != first and zone not in refused]
        chosen = (first, *rest)[: len(platform.region_zones)]
        if len(chosen) == len(platform.region_zones):
            yield Candidate(
                f"the platform in {region}",
                platform.model_copy(update={"region": region, "zones": chosen}),
                "data and images are where they are, and other lines can cost more there",
            )
