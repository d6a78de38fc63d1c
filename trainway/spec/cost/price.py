"""What a platform costs while it runs: one line for each thing that AWS bills by the hour or the month.

A line whose price is unknown says so, with a bound if there is one, and is not in the sum of the known. What is billed
by use (requests, traffic, logs, builds, objects in the bucket) has no line, because the platform file does not say how
much there will be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil

from trainway.spec.capacity.volumes import HEAD_VOLUME_GIB, SYSTEM_VOLUME_GIB
from trainway.spec.facts.catalogue import CapacityKind, Catalogue
from trainway.spec.facts.price_bounds import PriceBound, bound_of
from trainway.spec.facts.prices import Item, Price, PriceBook, PriceKind, listed_elsewhere
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.network.endpoints import interface_endpoints
from trainway.spec.network.subnets import SubnetRole
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.observability.samples import SCRAPE_SECONDS, samples_per_month
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import TimedCapacity, capacity_kind
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.storage import Lustre

# The month of AWS's own calculator. https://docs.aws.amazon.com/pricing-calculator/latest/userguide/ (read 2026-11-25)
HOURS_PER_MONTH = 730
NOT_COUNTED = (
    "objects in the bucket, traffic, requests, backups, images, builds, logs, alarms, the storage and queries of "
    "metrics, and what HyperPod's add-on collects"
)
# Prices of metrics are for ten million samples, and those above two billion a month cost less.
SAMPLES_OF_A_PRICE, METRICS_TIER = 10_000_000, 2_000_000_000

# Why a price that changes by the day is in no list.
_UNLISTED = {
    PriceKind.SPOT: "Spot prices change by the minute: `--live-prices` asks for the newest",
    PriceKind.HYPERPOD_SPOT: "no price of HyperPod's Spot instances is published by type",
    PriceKind.TRAINING_PLAN: "it is paid in advance, by the fee of the offering: `trainway capacity` shows offerings",
}


@dataclass(frozen=True)
class PriceLine:
    """One thing that costs, and its price.

    `quantity` and `most` are in the item's unit: instances, gateways, or GB, after the deploy and at the largest size
    of each group. `price` is None if it is unknown.
    """

    name: str
    what: str
    item: Item
    quantity: int
    most: int
    price: Price | None
    note: str = ""
    hours: Decimal = Decimal(HOURS_PER_MONTH)

    @property
    def by_the_hour(self) -> bool:
        """Return whether the price is for an hour, and not for a month."""
        return self.item.unit == "hour"

    @property
    def bound(self) -> PriceBound | None:
        """Return what an unknown price is at most, by estimate. None if the price is known, or nothing bounds it."""
        return bound_of(self.item) if self.price is None else None

    def per_hour(self, *, most: bool = False, bounds: bool = False) -> Decimal | None:
        """Return US dollars per hour, with all nodes that there can be if `most`.

        None if the price is unknown, and for `bounds` also what bounds it.
        """
        cost = self._cost(most=most, bounds=bounds)
        return cost if cost is None or self.by_the_hour else cost / HOURS_PER_MONTH

    def per_month(self, *, most: bool = False, bounds: bool = False) -> Decimal | None:
        """Return US dollars per month of 730 hours, or for all hours of shorter capacity. None as for the hour."""
        cost = self.per_hour(most=most, bounds=bounds)
        return None if cost is None else cost * self.hours

    def _cost(self, *, most: bool, bounds: bool) -> Decimal | None:
        quantity = self.most if most else self.quantity
        known = self.price or (self.bound if bounds else None)
        if not quantity:
            return Decimal(0)
        return None if known is None else known.usd * quantity

    @property
    def unknown(self) -> str:
        """Return why there is no price, or an empty text if there is one, or nothing to pay."""
        if self.price is not None or not self.most:
            return ""
        bought = ", HyperPod" if self.item.kind is PriceKind.HYPERPOD else ""
        unknown = f"{self.name}: no price known for {self.what}{bought} in {self.item.region}"
        if self.item.kind in _UNLISTED:
            unknown = f"{unknown}: {_UNLISTED[self.item.kind]}"
        if bound := self.bound:
            return f"{unknown}; at most about {bound.usd.normalize():f} {_each(self.item.unit)}: {bound.by}"
        known = listed_elsewhere(self.item)
        elsewhere = ", ".join(
            f"{region} {price.usd:f} ({price.source.as_of})" for region, price in list(known.items())[:3]
        )
        return f"{unknown}; elsewhere, for {_each(self.item.unit)}: {elsewhere}" if elsewhere else unknown


@dataclass(frozen=True)
class Total:
    """Sums in US dollars, and the names of the lines that are not in them."""

    per_hour: Decimal
    per_month: Decimal
    without: tuple[str, ...]


def price_lines(platform: Platform, catalogue: Catalogue, prices: PriceBook) -> tuple[PriceLine, ...]:
    """Return the lines of a platform, nodes first."""
    return tuple(replace(line, price=prices(line.item)) for line in _lines(platform, catalogue))


def total(lines: Sequence[PriceLine], *, most: bool = False, bounds: bool = False) -> Total:
    """Return the sum of the known prices, with all nodes that there can be if `most`, and with bounds if `bounds`."""
    hours = [(line.name, line.per_hour(most=most, bounds=bounds)) for line in lines]
    months = [line.per_month(most=most, bounds=bounds) for line in lines]
    return Total(
        sum((each for _, each in hours if each is not None), Decimal(0)),
        sum((each for each in months if each is not None), Decimal(0)),
        tuple(name for name, each in hours if each is None),
    )


def node_item(platform: Platform, group: NodeGroup, instance_type: str) -> Item:
    """Return what an instance of a group is bought as."""
    kind = CapacityKind(capacity_kind(group.capacity))
    hyperpod = platform.orchestrator.is_hyperpod
    match kind:
        case CapacityKind.CAPACITY_BLOCK:
            bought = PriceKind.CAPACITY_BLOCK
        case CapacityKind.TRAINING_PLAN:
            bought = PriceKind.TRAINING_PLAN
        case CapacityKind.SPOT:
            bought = PriceKind.HYPERPOD_SPOT if hyperpod else PriceKind.SPOT
        case _:
            # A reservation costs its on-demand price, in use or not:
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-pricing-billing.html
            bought = PriceKind.HYPERPOD if hyperpod else PriceKind.ON_DEMAND
    return Item(bought, platform.region, instance_type)


def _lines(platform: Platform, catalogue: Catalogue) -> Iterator[PriceLine]:
    for group in platform.node_groups:
        yield from _of_group(platform, group)
    yield from _of_heads(platform)
    if _creates_cluster(platform):
        yield _service(platform, "control plane", "the EKS cluster", "eks-cluster", 1)
        control_plane = platform.kubernetes_or_default.control_plane
        if control_plane and control_plane.tier != "standard":
            tier = control_plane.tier
            what = f"the capacity {tier} of the control plane"
            yield _service(platform, "control plane tier", what, f"eks-{tier}", 1)
    yield from _of_network(platform, catalogue)
    yield from _of_metrics(platform, catalogue)
    for key, lustre in platform.storage.lustre_by_key.items():
        yield from _of_lustre(platform, key, lustre)
    yield from _of_home(platform)
    yield _service(platform, "keys", "KMS keys of logs, alarms, and secrets", "kms-key", _keys(platform))


def _of_group(platform: Platform, group: NodeGroup) -> Iterator[PriceLine]:
    kind, others = capacity_kind(group.capacity), f" or {' or '.join(group.or_types)}" if group.or_types else ""
    bought = {"on-demand": "on demand", "spot": "Spot"}.get(kind, kind.replace("-", " "))
    what = f"{group.instance_type}{others}, {bought}"
    notes = {
        "reservation": "reserved instances cost the same while they are not used",
        "capacity-block": "paid in advance, for the whole block",
    }
    note, hours = notes.get(kind, ""), _hours(group)
    if hours < HOURS_PER_MONTH:
        note = f"{note or 'it ends'}, so that the month is that of its {hours.normalize():f} hours"
    if others:
        note = f"the price is that of {group.instance_type}"
    item = node_item(platform, group, group.instance_type)
    yield PriceLine(group.name, what, item, group.count, group.largest, None, note, hours)
    yield replace(_volumes(platform, group.name, group.root_volume_gib, group.count, group.largest), hours=hours)


def _hours(group: NodeGroup) -> Decimal:
    """Return how many hours of a month the capacity of a group is there, by its times if the file has them."""
    capacity = group.capacity
    if not isinstance(capacity, TimedCapacity) or capacity.start is None or capacity.end is None:
        return Decimal(HOURS_PER_MONTH)
    seconds = Decimal(int((capacity.end - capacity.start).total_seconds()))
    return min(seconds / 3600, Decimal(HOURS_PER_MONTH))


def _of_heads(platform: Platform) -> Iterator[PriceLine]:
    """Yield the nodes that run no jobs: those of the cluster's own pods, or Slurm's controller and login node."""
    if platform.orchestrator.is_kubernetes:
        system = platform.kubernetes_or_default.system_nodes
        item = Item(PriceKind.ON_DEMAND, platform.region, system.instance_type)
        what = f"{system.instance_type}, on demand"
        yield PriceLine("system nodes", what, item, system.count, system.count, None)
        item = Item(PriceKind.SERVICE, platform.region, "gp3")
        gib = SYSTEM_VOLUME_GIB * system.count
        yield PriceLine("volumes of system nodes", "gp3", item, gib, gib, None)
        return
    slurm = platform.slurm_or_default
    for name, head in (("controller", slurm.controller), ("login node", slurm.login)):
        if head:
            item = Item(PriceKind.HYPERPOD, platform.region, head.instance_type)
            yield PriceLine(name, f"{head.instance_type}, on demand", item, 1, 1, None)
            yield _volumes(platform, name, HEAD_VOLUME_GIB, 1, 1)


def _volumes(platform: Platform, nodes: str, gib: int, count: int, most: int) -> PriceLine:
    """Return the volumes of nodes. HyperPod's own root volumes, whose size it chooses, are not counted."""
    name = "hyperpod-volume" if platform.orchestrator.is_hyperpod else "gp3"
    item = Item(PriceKind.SERVICE, platform.region, name)
    what = "volumes of HyperPod" if platform.orchestrator.is_hyperpod else "gp3"
    return PriceLine(f"volumes of {nodes}", what, item, gib * count, gib * most, None)


def _of_network(platform: Platform, catalogue: Catalogue) -> Iterator[PriceLine]:
    """Yield the way out of a new VPC, and the interface endpoints, each of which costs by the zone."""
    if platform.network.existing is None and not platform.network.is_closed:
        yield _service(platform, "NAT gateway", "the NAT gateway", "nat-gateway", 1)
        yield _service(platform, "public address", "the public IPv4 address of NAT", "public-ipv4", 1)
    if services := interface_endpoints(platform, catalogue):
        zones = len(plan_addresses(platform, catalogue).of_role(SubnetRole.CLUSTER))
        what = f"interface endpoints of {len(services)} services in {zones} zone{'s' if zones > 1 else ''}"
        yield _service(platform, "endpoints", what, "interface-endpoint", len(services) * zones)


def _of_metrics(platform: Platform, catalogue: Catalogue) -> Iterator[PriceLine]:
    """Yield the lines of metric samples, which AWS bills. AWS does not publish how many HyperPod's add-on writes."""
    collector = collector_of(platform)
    if collector is None or collector is Collector.HYPERPOD_ADDON:
        return
    now, most = (samples_per_month(platform, catalogue, most=each) for each in (False, True))
    what = f"the metrics that panels and alarms use, every {SCRAPE_SECONDS} seconds"
    for service, below, above in (("metrics-samples", 0, METRICS_TIER), ("metrics-samples-next", METRICS_TIER, None)):
        counts = [ceil((min(each, above or each) - below) / SAMPLES_OF_A_PRICE) for each in (now, most)]
        if max(counts) > 0:
            words = what if below == 0 else f"what is above {METRICS_TIER / 1e9:.0f} billion samples a month"
            item = Item(PriceKind.SERVICE, platform.region, service)
            name = "metrics" if below == 0 else "more metrics"
            yield PriceLine(name, words, item, max(counts[0], 0), counts[1], None)
    if collector is Collector.AWS_MANAGED:
        yield _service(platform, "collector", "the AWS managed collector of metrics", "metrics-collector", 1)
        item = Item(PriceKind.SERVICE, platform.region, "metrics-collected")
        counts = [ceil(each / SAMPLES_OF_A_PRICE) for each in (now, most)]
        yield PriceLine("samples of the collector", "what it collects", item, counts[0], counts[1], None)


def _of_lustre(platform: Platform, key: str, lustre: Lustre) -> Iterator[PriceLine]:
    if lustre.existing is not None:
        return
    if lustre.is_elastic:
        what = "Lustre Intelligent-Tiering, throughput (what it holds costs, too)"
        yield _service(platform, key, what, "lustre-intelligent-tiering-throughput", lustre.throughput_mbps)
        return
    if lustre.is_scratch:
        yield _service(platform, key, "Lustre, scratch", "lustre-scratch-2", lustre.capacity_gib)
        return
    what = f"Lustre on SSD with {lustre.throughput_mbps_per_tib} MB/s per TiB"
    name = f"lustre-persistent-2-{lustre.throughput_mbps_per_tib}"
    line = _service(platform, key, what, name, lustre.capacity_gib)
    # Metadata operations that are provisioned beyond those of the capacity have a price of their own.
    note = "provisioned metadata operations are not counted" if lustre.metadata_iops else ""
    yield PriceLine(line.name, line.what, line.item, line.quantity, line.most, None, note)


def _of_home(platform: Platform) -> Iterator[PriceLine]:
    if (home := platform.storage.home) is None:
        return
    kind = "openzfs-single-az-ha" if home.highly_available else "openzfs-single-az"
    words = "OpenZFS with a standby server" if home.highly_available else "OpenZFS"
    yield _service(platform, "home", f"{words}, storage", f"{kind}-storage", home.capacity_gib)
    yield _service(platform, "home throughput", f"{words}, throughput", f"{kind}-throughput", home.throughput_mbps)


def _keys(platform: Platform) -> int:
    """Return how many KMS keys the stacks create: for alarms, EKS's secrets, and each stack with logs."""
    images = sum(platform.of_image(name).image.uri is None for name in platform.image_names)
    kubernetes = platform.orchestrator.is_kubernetes + _creates_cluster(platform)
    return 2 + kubernetes + images + (platform.network.existing is None)


def _creates_cluster(platform: Platform) -> bool:
    """Return whether the platform creates an EKS cluster. The owner of an adopted one pays for it."""
    return platform.orchestrator.is_kubernetes and platform.adopted_cluster is None


def _service(platform: Platform, name: str, what: str, service: str, quantity: int) -> PriceLine:
    return PriceLine(name, what, Item(PriceKind.SERVICE, platform.region, service), quantity, quantity, None)


def _each(unit: str) -> str:
    return {"hour": "an hour", "month": "a month"}.get(unit, f"a {unit}")
