"""What a run has cost, by the list price of its nodes when it was launched."""

from __future__ import annotations

from trainway.report import words
from trainway.report.documents import Launch


def cost_sentence(launch: Launch | None, seconds: float) -> str:
    """Return what the nodes of a run cost for this many seconds of all attempts together.

    Empty for a run of this machine, and for a record of a version that kept no price. The time between two attempts is
    not in the seconds, and neither is the time in which nodes start.
    """
    if launch is None or launch.nodes is None or launch.nodes.price is None:
        return ""
    nodes, price = launch.nodes.count, launch.nodes.price
    what = f"{nodes} × {price.instance_type} {price.bought}"
    if price.usd_per_hour is None:
        return f"What the run cost is unknown: no price was known for {what} in {price.region}."
    usd = nodes * price.usd_per_hour * seconds / 3600
    return (
        f"Its attempts cost about ${usd:,.2f}: {what} for {words.duration(seconds)}, at ${price.usd_per_hour:,.2f} an "
        f"hour each, by the list price of {price.as_of}."
    )
