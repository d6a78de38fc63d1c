"""Changes that make the nodes cheaper fit the same jobs, break no rule, and have a known price."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.people import with_people
from tests.synthesis import ROOT
from trainway.cli import app
from trainway.extensions.cheaper import as_text, candidates, compare
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.prices import Item, Price, PriceBook, PriceSource, listed_price
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.rules import RULES

CATALOGUE = load_catalogue()


def platform_with(tmp_path: Path, *, instance_type: str = "p5.48xlarge", count: int = 4, **changes: Any) -> Platform:
    group = {"name": "train", "instance_type": instance_type, "count": count, **changes.pop("group", {})}
    document = {"region": "us-east-1", "zones": ["use1-az4", "use1-az6"], "orchestrator": "eks", "node_groups": [group]}
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(document | changes)), encoding="utf-8")
    return load_platform(file)


def prices(**usd: str) -> PriceBook:
    """A book with these on-demand prices by Region and type, whose dots are underscores."""
    source = PriceSource.model_validate({"url": "x", "title": "x", "as_of": "2026-11", "read": "2026-11-25"})

    def find(item: Item) -> Price | None:
        key = f"{item.region}_{item.name}".replace("-", "_").replace(".", "_")
        return Price(Decimal(usd[key]), source) if item.kind == "on-demand" and key in usd else None

    return find


def test_a_block_is_cheaper_than_on_demand_by_the_table(tmp_path: Path) -> None:
    platform = platform_with(tmp_path)
    compared = compare(platform, candidates(platform, CATALOGUE), listed_price)
    assert compared.usd_per_hour == 4 * Decimal("55.04")
    block = next(each for each in compared.cheaper if each.what == "train in a Capacity Block")
    assert (block.usd_per_hour, block.saves) == (4 * Decimal("31.464"), 4 * (Decimal("55.04") - Decimal("31.464")))
    assert "paid in advance" in block.gives_up
    assert "train on Spot" in compared.unpriced


def test_another_region_is_compared_by_its_own_price(tmp_path: Path) -> None:
    platform = platform_with(tmp_path)
    book = prices(us_east_1_p5_48xlarge="60", us_west_2_p5_48xlarge="50", eu_north_1_p5_48xlarge="70")
    compared = compare(platform, candidates(platform, CATALOGUE), book)
    assert [(each.what, each.usd_per_hour) for each in compared.cheaper] == [
        ("the platform in us-west-2", Decimal(200))
    ]


def test_another_type_holds_and_computes_at_least_as_much(tmp_path: Path) -> None:
    """Half as many nodes of a type of twice the rate, and never accelerators with less memory."""
    platform = platform_with(tmp_path, instance_type="g5.12xlarge", count=4)
    own = CATALOGUE["g5.12xlarge"]
    found = [each for each in candidates(platform, CATALOGUE) if " × " in each.what]
    assert found
    for each in found:
        group = each.platform.node_groups[0]
        other = CATALOGUE[group.instance_type]
        assert own.accelerator and other.accelerator
        assert other.accelerator.memory_gib >= own.accelerator.memory_gib
        for figure in ("memory_gib", "bf16_tflops"):
            before = 4 * own.accelerator.count * getattr(own.accelerator, figure)
            assert group.count * other.accelerator.count * getattr(other.accelerator, figure) >= before
        if group.count > 1:
            assert group.count * other.network_gbps >= 4 * own.network_gbps
    book = prices(us_east_1_g5_12xlarge="6", us_east_1_g6e_12xlarge="7", us_east_1_g6e_48xlarge="30")
    cheapest = compare(platform, found, book).cheaper[0]
    assert cheapest.what.endswith("× g6e.12xlarge for train")


def test_no_candidate_breaks_a_rule(tmp_path: Path) -> None:
    platform = platform_with(tmp_path)
    for each in candidates(platform, CATALOGUE):
        assert [breach for rule in RULES for breach in rule(each.platform, CATALOGUE)] == []


def test_a_guarantee_of_a_type_keeps_the_type() -> None:
    found = candidates(load_platform(ROOT / "examples/eks-p5.yaml"), CATALOGUE)
    assert not [each.what for each in found if each.what.endswith(" for train")]


@pytest.mark.parametrize(
    "capacity",
    [{"capacity_block": "cr-0123456789abcdef0"}, {"reservation": "cr-0123456789abcdef0"}],
    ids=["block", "reservation"],
)
def test_what_was_bought_does_not_move(tmp_path: Path, capacity: dict[str, str]) -> None:
    found = candidates(platform_with(tmp_path, group={"capacity": capacity}), CATALOGUE)
    assert not [each.what for each in found if each.what.startswith("the platform in")]
    assert ("capacity_block" in capacity) == (found == ())


def test_an_unknown_price_of_the_platform_is_said(tmp_path: Path) -> None:
    platform = platform_with(tmp_path, orchestrator="hyperpod-eks", instance_type="g6e.8xlarge")
    text = as_text(compare(platform, candidates(platform, CATALOGUE), listed_price))
    assert text.startswith("Nothing can be compared: the price of the platform's own nodes is not known.")


def test_the_command_prints_sentences_and_json() -> None:
    file = str(ROOT / "examples/eks-p5.yaml")
    text = CliRunner().invoke(app, ["plan", file, "--cheaper"]).stdout
    assert "The nodes cost $220.16 an hour. Cheaper, for the same jobs:" in text
    assert "  $125.86 ($94.30 less): train in a Capacity Block; the block is paid in advance" in text
    document = json.loads(CliRunner().invoke(app, ["plan", file, "--cheaper", "--json"]).stdout)
    assert document["cheaper"][0]["usd_per_hour"] == pytest.approx(4 * 31.464)
