"""What platforms cost: by hand from the price list's own figures, and by the resources of their templates."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.people import with_people
from tests.synthesis import EXAMPLES, ROOT, templates_of
from trainway.cli import app
from trainway.spec.cost.price import HOURS_PER_MONTH, price_lines, total
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.price_bounds import bound_of
from trainway.spec.facts.prices import FILE, Item, PriceKind, listed_price, price_list
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.storage.file_system_price import monthly_price

CATALOGUE = load_catalogue()
CENT = Decimal("0.01")

# By hand, from the figures of the sources of prices.yaml: what is billed by the hour, and by the month. A platform has
# two system nodes of m7i.2xlarge with 100 GB each, an EKS cluster, NAT with its address, endpoints, and keys.
# A collector on EKS costs by the hour, and by ten million samples: a month has 87,600 scrapes of each series. A node of
# EKS has 182 series, one for each vCPU, 9 for each GPU, and 6 for each EFA device. Kueue has 80.
OREGON_HOURS = "2 * 0.4032 + 0.10"
OREGON_OUT = "0.045 + 0.005"
BY_HAND: dict[str, dict[str, Any]] = {
    "platform.yaml": {
        "hours": f"1 * 2.448 + {OREGON_HOURS} + {OREGON_OUT} + 6 * 2 * 0.01 + 0.04",
        # 3 * 182 + 32 + 16 + 9 + 6 = 609 series, 53.3 million samples
        "months": "1 * 500 * 0.08 + 2 * 100 * 0.08 + 6 * 1.00 + 6 * 0.93",
        "without": {"lustre"},
    },
    "examples/eks-p5.yaml": {
        "hours": f"4 * 55.04 + {OREGON_HOURS} + {OREGON_OUT} + 6 * 2 * 0.01 + 0.04",
        # 6 * 182 + 4 * 192 + 16 + 4 * 8 * 14 + 4 * 32 * 6 + 80 = 3,172 series, 277.9 million samples
        "months": "4 * 500 * 0.08 + 2 * 100 * 0.08 + 6 * 1.00 + 28 * 0.93",
        "without": {"lustre"},
    },
    # No node of `train` exists while nothing runs.
    "examples/eks-scratch.yaml": {
        "hours": f"2 * 0.2016 + 0.10 + {OREGON_OUT} + 6 * 2 * 0.01 + 0.04",
        # 2 * 182 + 8 = 372 series, 32.6 million samples
        "months": "1200 * 0.14 + 2 * 100 * 0.08 + 6 * 1.00 + 4 * 0.93",
        "without": set(),
    },
    "examples/eks-s3.yaml": {
        "hours": f"2 * 0.2016 + 0.10 + {OREGON_OUT} + 6 * 2 * 0.01 + 0.04",
        # 2 * 182 + 8 + 80 = 452 series, 39.6 million samples
        "months": "2 * 100 * 0.08 + 6 * 1.00 + 4 * 0.93",
        "without": set(),
    },
    "examples/hyperpod-eks-p5.yaml": {
        "hours": f"{OREGON_HOURS} + {OREGON_OUT} + 6 * 2 * 0.01",
        "months": "2 * 100 * 0.08 + 6 * 1.00",
        "without": {"train", "volumes of train", "lustre"},
    },
    "examples/closed-hyperpod-eks.yaml": {
        "hours": f"{OREGON_HOURS} + 14 * 2 * 0.01",
        "months": "2 * 100 * 0.08 + 6 * 1.00",
        "without": {"train", "volumes of train", "lustre"},
    },
    "examples/hyperpod-eks-shared.yaml": {
        "hours": "2 * 66.048 + 2 * 0.4032 + 0.10 + 0.045 + 0.005 + 6 * 2 * 0.01",
        "months": "9600 * 0.34 + 2 * 100 * 0.08 + 7 * 1.00",
        "without": {"volumes of train"},
    },
    "examples/hyperpod-slurm-p5en.yaml": {
        "hours": "0.005",
        # 8 * (58 + 192 + 8 * 14 + 16 * 6) + 27 = 3,691 series, 323.3 million samples, and no collector of AWS
        "months": "4 * 1.00 + 33 * 0.90",
        "without": {
            *(
                "train",
                "volumes of train",
                "controller",
                "volumes of controller",
                "login node",
                "volumes of login node",
            ),
            *("NAT gateway", "endpoints", "lustre"),
        },
    },
}


def by_hand(expression: str) -> Decimal:
    """Return the value of a sum of products."""
    value = Decimal(0)
    for term in expression.split(" + "):
        product = Decimal(1)
        for factor in term.split(" * "):
            product *= Decimal(factor)
        value += product
    return value


def platform_with(tmp_path: Path, **changes: Any) -> Platform:
    document = {
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 4, "max_count": 6}],
    }
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(document | changes)), encoding="utf-8")
    return load_platform(file)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_price_of_an_example_is_the_one_by_hand(file: Path) -> None:
    expected = BY_HAND[str(file.relative_to(ROOT))]
    hours, months = by_hand(expected["hours"]), by_hand(expected["months"])
    found = total(price_lines(load_platform(file), CATALOGUE, listed_price))
    assert abs(found.per_hour - (hours + months / HOURS_PER_MONTH)) < CENT
    assert abs(found.per_month - (hours * HOURS_PER_MONTH + months)) < CENT
    assert set(found.without) == expected["without"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_resource_that_is_billed_by_the_hour_has_a_line(file: Path) -> None:
    """The lines count what the templates create."""
    lines = {line.item.name: 0 for line in price_lines(load_platform(file), CATALOGUE, listed_price)}
    for line in price_lines(load_platform(file), CATALOGUE, listed_price):
        lines[line.item.name] += line.quantity
    made: Counter[str] = Counter()
    for template in templates_of(file).values():
        for each in template["Resources"].values():
            properties = each.get("Properties", {})
            made[each["Type"]] += 1
            if each["Type"] == "AWS::EC2::VPCEndpoint" and properties["VpcEndpointType"] == "Interface":
                made["interfaces"] += len(properties["SubnetIds"])
            if each["Type"] == "AWS::FSx::FileSystem":
                made["GiB of Lustre"] += properties["StorageCapacity"]
            if each["Type"] == "AWS::SageMaker::Cluster":
                for group in properties["InstanceGroups"]:
                    (volume, *_) = [
                        storage["EbsVolumeConfig"]["VolumeSizeInGB"]
                        for storage in group["InstanceStorageConfigs"]
                        if "VolumeSizeInGB" in storage.get("EbsVolumeConfig", {})
                    ]
                    made["GiB of HyperPod"] += volume * group["InstanceCount"]
    lustre = sum(count for name, count in lines.items() if name.startswith("lustre-"))
    assert {
        "AWS::EC2::NatGateway": lines.get("nat-gateway", 0),
        "AWS::EC2::EIP": lines.get("public-ipv4", 0),
        "AWS::EKS::Cluster": lines.get("eks-cluster", 0),
        "AWS::KMS::Key": lines["kms-key"],
        "interfaces": lines["interface-endpoint"],
        "GiB of Lustre": lustre,
        "GiB of HyperPod": lines.get("hyperpod-volume", 0),
    } == {
        name: made[name]
        for name in (
            *("AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::EKS::Cluster", "AWS::KMS::Key"),
            *("interfaces", "GiB of Lustre", "GiB of HyperPod"),
        )
    }


def test_the_lines_of_a_group_have_its_count_and_its_largest_size(tmp_path: Path) -> None:
    (nodes, volumes, *_) = price_lines(platform_with(tmp_path), CATALOGUE, listed_price)
    assert nodes.per_hour() == 4 * Decimal("55.04")
    assert nodes.per_hour(most=True) == 6 * Decimal("55.04")
    assert nodes.per_month() == 4 * Decimal("55.04") * 730
    assert volumes.per_month() == 4 * 500 * Decimal("0.08")


@pytest.mark.parametrize(
    ("orchestrator", "capacity", "kind", "usd"),
    [
        ("eks", "on-demand", PriceKind.ON_DEMAND, "55.04"),
        ("eks", {"reservation": "cr-0123456789abcdef0"}, PriceKind.ON_DEMAND, "55.04"),
        ("eks", {"capacity_block": "cr-0123456789abcdef0"}, PriceKind.CAPACITY_BLOCK, "31.464"),
        ("eks", "spot", PriceKind.SPOT, None),
        ("hyperpod-eks", "on-demand", PriceKind.HYPERPOD, None),
        ("hyperpod-eks", "spot", PriceKind.HYPERPOD_SPOT, None),
        (
            "hyperpod-eks",
            {"training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/x"},
            PriceKind.TRAINING_PLAN,
            None,
        ),
    ],
)
def test_a_group_costs_by_the_way_it_is_bought(
    tmp_path: Path, orchestrator: str, capacity: Any, kind: PriceKind, usd: str | None
) -> None:
    """HyperPod's price is never that of EC2, nor one derived from it."""
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "capacity": capacity}
    platform = platform_with(tmp_path, orchestrator=orchestrator, node_groups=[group])
    (line, *_) = price_lines(platform, CATALOGUE, listed_price)
    assert (line.item.kind, line.price and str(line.price.usd)) == (kind, usd)
    if usd is None:
        assert line.per_hour() is None
        assert line.unknown.startswith("train: no price known for p5.48xlarge")
        assert "in us-west-2" in line.unknown


def test_a_price_of_hyperpod_that_is_known_is_used(tmp_path: Path) -> None:
    group = {"name": "train", "instance_type": "p4d.24xlarge", "count": 2}
    platform = platform_with(tmp_path, orchestrator="hyperpod-eks", node_groups=[group])
    (line, *_) = price_lines(platform, CATALOGUE, listed_price)
    assert line.per_hour() == 2 * Decimal("25.91001756")


def test_an_unknown_price_of_a_group_without_nodes_is_in_the_largest_sum_only(tmp_path: Path) -> None:
    group = {"name": "later", "instance_type": "p5e.48xlarge", "count": 0, "max_count": 2, "capacity": "spot"}
    lines = price_lines(
        platform_with(tmp_path, node_groups=[group], zones=["usw2-az3", "usw2-az1"]), CATALOGUE, listed_price
    )
    assert "later" not in total(lines).without
    assert "later" in total(lines, most=True).without


def test_the_plan_ends_with_the_price_and_its_sources() -> None:
    ran = CliRunner().invoke(app, ["plan", str(ROOT / "examples/eks-p5.yaml")])
    assert ran.exit_code == 0, ran.output
    price = ran.stdout[ran.stdout.index("\nprice ") :]
    assert (
        "lustre: no price known for Lustre on SSD with 500 MB/s per TiB in us-west-2; at most about 0.425 a GB-month"
        in price
    )
    assert "total of the known" in price and "161,739.81" in price
    assert "with the bounds" in price and "165,819.81" in price
    document = json.loads(CliRunner().invoke(app, ["plan", str(ROOT / "examples/eks-p5.yaml"), "--json"]).stdout)[
        "price"
    ]
    assert document["total"] == {"usd_per_hour": 221.561386, "usd_per_month": 161739.812, "without": ["lustre"]}
    for source in document["sources"]:
        assert f"{source['as_of']:10}  {source['title']}" in price
    (train,) = (line for line in document["lines"] if line["name"] == "train")
    assert (train["quantity"], train["most"], train["usd_each"], train["as_of"]) == (4, 16, 55.04, "2025-12")


def test_the_prices_are_of_things_that_aws_sells_there() -> None:
    offerings, catalogue = load_offerings(), load_catalogue()
    for item in price_list():
        if item.kind is PriceKind.SERVICE:
            continue
        assert item.name in catalogue
        if item.kind is PriceKind.ON_DEMAND:
            assert item.region in offerings.on_demand.of(item.name), item
        if item.kind is PriceKind.HYPERPOD:
            assert item.region in offerings.hyperpod.of(item.name), item


def test_a_price_of_every_region_holds_in_commercial_regions_only() -> None:
    assert listed_price(Item(PriceKind.SERVICE, "eu-west-1", "eks-cluster"))
    assert listed_price(Item(PriceKind.SERVICE, "cn-north-1", "eks-cluster")) is None
    assert listed_price(Item(PriceKind.SERVICE, "us-gov-west-1", "eks-cluster")) is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda it: it["prices"].append(it["prices"][0]), "two prices"),
        (lambda it: it["prices"].append({**it["prices"][-1], "usd": {"unheard-of": 1}}), "no service with a unit"),
        (lambda it: it["prices"][0]["usd"].update({"p4d.24xlarge": 0}), "greater than 0"),
        (lambda it: it["sources"]["eks"].pop("as_of"), "as_of"),
    ],
    ids=["twice", "unit", "free", "date"],
)
def test_a_table_that_contradicts_itself_is_refused(tmp_path: Path, change: Any, problem: str) -> None:
    table = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    change(table)
    file = tmp_path / "prices.yaml"
    file.write_text(yaml.safe_dump(table), encoding="utf-8")
    with pytest.raises(ValueError, match=problem):
        price_list(file)


def test_the_capacity_of_a_control_plane_has_a_line(tmp_path: Path) -> None:
    kubernetes = with_people({"orchestrator": "eks"})["kubernetes"]
    for tier, usd in (("standard", None), ("tier-xl", "1.65"), ("tier-8xl", "13.90")):
        platform = platform_with(tmp_path, kubernetes={**kubernetes, "control_plane": {"tier": tier}})
        lines = {line.name: line for line in price_lines(platform, CATALOGUE, listed_price)}
        assert lines["control plane"].per_hour() == Decimal("0.10")
        found = lines.get("control plane tier")
        assert (None if found is None else found.per_hour()) == (None if usd is None else Decimal(usd))


@pytest.mark.parametrize(
    ("region", "throughput", "said"),
    [
        ("us-east-1", 500, "$3,264 a month (list price of 2022-04-11)"),
        ("us-east-1", None, "$1,344 a month (list price of 2026-07-13)"),
        (
            "us-west-2",
            500,
            "unknown in us-west-2, at most about $4,080 a month (that of us-east-1, 0.34 (2022-04-11), ",
        ),
    ],
)
def test_a_file_system_costs_the_same_in_a_diff_and_in_a_plan(region: str, throughput: int | None, said: str) -> None:
    assert monthly_price(region, 9600, throughput).startswith(said)
    name = f"lustre-persistent-2-{throughput}" if throughput else "lustre-scratch-2"
    listed = listed_price(Item(PriceKind.SERVICE, region, name))
    assert (listed is None) == said.startswith("unknown")
    known = listed or bound_of(Item(PriceKind.SERVICE, region, name))
    assert known and f"${known.usd * 9600:,.0f}" in said
