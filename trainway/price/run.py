"""What an hour of a run's nodes costs, and what a run has cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from trainway.spec.cost.price import node_item
from trainway.spec.facts.price_bounds import bound_of
from trainway.spec.facts.prices import PriceBook, PriceKind, listed_price
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import capacity_kind

_BOUGHT = {
    "on-demand": "on demand",
    "reservation": "in a reservation",
    "capacity-block": "in a Capacity Block",
    "spot": "on Spot",
    "training-plan": "in a training plan",
}


@dataclass(frozen=True)
class NodePrice:
    """The price of a node of a run: US dollars per hour, or None if it is unknown, and the day of the price list.

    `bound` is what an unknown price is at most, by estimate, and `bound_by` what that follows from.
    """

    instance_type: str
    bought: str
    region: str
    usd_per_hour: float | None
    as_of: str | None
    bound: float | None = None
    bound_by: str = ""

    def kept(self) -> dict[str, str | float | None]:
        """Return what the record of a run keeps: the price, if it is known, and no bound."""
        kept = asdict(self)
        return {name: kept[name] for name in ("instance_type", "bought", "region", "usd_per_hour", "as_of")}

    def sentence(self, nodes: int) -> str:
        """Return what an hour of this many nodes costs."""
        what = f"{nodes} × {self.instance_type} {self.bought}"
        if self.usd_per_hour is None:
            unknown = f"no price known for {what} in {self.region}"
            if self.bound is None:
                return unknown
            return f"{unknown}; at most about ${nodes * self.bound:,.2f} an hour: {self.bound_by}"
        return f"{what}: ${nodes * self.usd_per_hour:,.2f} an hour, by the list price of {self.as_of}"


def node_price(platform: Platform, group: str, instance_type: str, prices: PriceBook = listed_price) -> NodePrice:
    """Return the price of a node of a group. A group that the file does not have any more has no known price."""
    found = next((each for each in platform.node_groups if each.name == group), None)
    if found is None:
        return NodePrice(instance_type, f"of the group {group}", platform.region, None, None)
    item = node_item(platform, found, instance_type)
    price = prices(item)
    usd, as_of = (float(price.usd), price.source.as_of) if price else (None, None)
    hyperpod = ", HyperPod" if item.kind in (PriceKind.HYPERPOD, PriceKind.HYPERPOD_SPOT) else ""
    bought = f"{_BOUGHT[capacity_kind(found.capacity)]}{hyperpod}"
    if price is None and (bound := bound_of(item)):
        return NodePrice(instance_type, bought, platform.region, usd, as_of, float(bound.usd), bound.by)
    return NodePrice(instance_type, bought, platform.region, usd, as_of)


def training_job_price(platform: Platform, instance_type: str) -> NodePrice:
    """Return the price of an instance of a SageMaker training job, of which none is known."""
    return NodePrice(instance_type, "of a SageMaker training job", platform.region, None, None)
