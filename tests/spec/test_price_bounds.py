"""Each price that is known lies below the bound that others give, and each line of each example has one of both."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.synthesis import EXAMPLES
from trainway.cli import app
from trainway.price.document import price_document
from trainway.price.run import node_price
from trainway.spec.cost.price import HOURS_PER_MONTH, price_lines, total
from trainway.spec.facts import price_bounds
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.price_bounds import MARGIN, YARDSTICK, bound_of
from trainway.spec.facts.prices import EVERY, Item, PriceKind, listed_price, price_list
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

CATALOGUE = load_catalogue()
KNOWN = {item: price for item, price in price_list().items() if item.region != EVERY}


def test_a_known_price_is_below_the_bound_that_each_other_price_gives() -> None:
    bounds = {item: (*price_bounds._in_region(item), *price_bounds._in_others(item)) for item in KNOWN}
    assert [(item, bound) for item, found in bounds.items() for bound in found if bound.usd < KNOWN[item].usd] == []


def test_every_rule_of_the_bounds_was_tried_with_a_price_that_is_known() -> None:
    kinds = {item.kind for item in KNOWN}
    tried = {kind for kind in kinds if kind in price_bounds._ON_DEMAND}
    assert tried == {PriceKind.HYPERPOD, PriceKind.CAPACITY_BLOCK}
    across = {item.kind for item in KNOWN if any(price_bounds._in_others(item))}
    assert across >= {PriceKind.ON_DEMAND, PriceKind.HYPERPOD, PriceKind.CAPACITY_BLOCK, PriceKind.SERVICE}
    ratios = [
        price.usd / ec2.usd
        for item, price in KNOWN.items()
        if item.kind is PriceKind.HYPERPOD and (ec2 := listed_price(Item(PriceKind.ON_DEMAND, item.region, item.name)))
    ]
    # The margin is as small as what is known allows, to the cent.
    assert round(max(ratios), 2) == MARGIN


def test_a_bound_says_what_it_follows_from() -> None:
    bound = bound_of(Item(PriceKind.TRAINING_PLAN, "us-east-2", "p5en.48xlarge"))
    assert bound and bound.usd == Decimal("63.296") * MARGIN
    assert bound.by == "HyperPod's price on demand, from EC2's price on demand, 63.296 (2025-12), and a quarter more"
    dear = bound_of(Item(PriceKind.SERVICE, "ap-northeast-1", "nat-gateway"))
    assert dear and f"by what {YARDSTICK} costs in both Regions, and a quarter more" in dear.by
    assert dear.usd > Decimal("0.045") * MARGIN
    # No instance of the yardstick has a price in this Region.
    assert bound_of(Item(PriceKind.SERVICE, "cn-north-1", "nat-gateway")) is None


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_no_line_of_an_example_is_without_price_and_bound(file: Path) -> None:
    platform = load_platform(file)
    lines = price_lines(platform, CATALOGUE, listed_price)
    assert [line.name for line in lines if line.most and line.price is None and line.bound is None] == []
    known, bounded = total(lines, most=True), total(lines, most=True, bounds=True)
    assert bounded.without == () and bounded.per_hour >= known.per_hour
    document = price_document(platform, CATALOGUE, listed_price)
    printed = CliRunner().invoke(app, ["plan", str(file)]).stdout
    sums = document["total_with_bounds"] if known.without else document["total"]
    assert f"{sums['usd_per_hour']:,.2f}" in printed and f"{sums['usd_per_month']:,.2f}" in printed
    assert json.dumps(document)


def platform_of(**group: object) -> Platform:
    whole = {"name": "train", "instance_type": "p5.48xlarge", "count": 4, **group}
    return Platform.model_validate({"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [whole]})


def test_a_block_of_seven_days_costs_seven_days() -> None:
    times = {
        "start": datetime(2027, 1, 4, 11, 30, tzinfo=UTC).isoformat(),
        "end": datetime(2027, 1, 11, 11, 30, tzinfo=UTC).isoformat(),
    }
    block = {"capacity_block": "cr-0123456789abcdef0"}
    line, volumes, *_ = price_lines(platform_of(capacity=block | times), CATALOGUE, listed_price)
    assert line.per_month() == 4 * Decimal("31.464") * 168
    assert line.note == "paid in advance, for the whole block, so that the month is that of its 168 hours"
    assert volumes.per_month() == pytest.approx(4 * 500 * Decimal("0.08") * 168 / HOURS_PER_MONTH)
    line, *_ = price_lines(platform_of(capacity=block), CATALOGUE, listed_price)
    assert line.per_month() == 4 * Decimal("31.464") * HOURS_PER_MONTH


def test_a_run_on_nodes_without_a_price_has_the_bound_of_the_plan() -> None:
    platform = platform_of(capacity="spot")
    said = node_price(platform, "train", "p5.48xlarge").sentence(4)
    assert said == (
        "no price known for 4 × p5.48xlarge on Spot in us-west-2; at most about $220.16 an hour: "
        "EC2's price on demand, 55.04 (2025-12)"
    )
