"""Prices that AWS answers: the right rows among those that look like them, and what is said where there is none."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator import Emulator
from tests.price.conftest import ec2_row, row
from tests.synthesis import ROOT
from trainway.cli import app
from trainway.price.live import live_prices, query_of
from trainway.spec.errors import UsageError
from trainway.spec.facts.prices import SERVICE_UNITS, Item, PriceKind, listed_price

P5 = Item(PriceKind.ON_DEMAND, "us-west-2", "p5.48xlarge")
HYPERPOD_P5 = Item(PriceKind.HYPERPOD, "us-west-2", "p5.48xlarge")
SPOT_P5 = Item(PriceKind.SPOT, "us-west-2", "p5.48xlarge")


def service(name: str, region: str = "us-west-2") -> Item:
    return Item(PriceKind.SERVICE, region, name)


def price(aws: Emulator, rows: list[dict[str, Any]], item: Item) -> Decimal | None:
    aws.sell({"price_list": rows}, "us-east-1")
    found = live_prices([item])(item)
    return found.usd if found and found.source.title.startswith("Price List API") else None


def test_the_row_of_an_instance_is_found_among_those_that_look_like_it(aws: Emulator) -> None:
    rows = [
        ec2_row("p5.48xlarge", "0.0000000000", marketoption="CapacityBlock"),
        ec2_row("p5.48xlarge", "0.0000000000", usage="USW2-Reservation:p5.48xlarge"),
        ec2_row("p5.48xlarge", "55.0400000000"),
        ec2_row("p5.48xlarge", "55.0400000000", usage="USW2-UnusedBox:p5.48xlarge"),
        ec2_row("p5.48xlarge", "60.5440000000", tenancy="Dedicated", usage="USW2-DedicatedUsage:p5.48xlarge"),
        ec2_row("p5.48xlarge", "99.0000000000", operatingSystem="Windows"),
        ec2_row("p5.48xlarge", "68.8000000000", regionCode="us-west-1", usage="USW1-BoxUsage:p5.48xlarge"),
    ]
    aws.sell({"price_list": rows}, "us-east-1")
    found = live_prices([P5])(P5)
    assert found is not None
    assert (found.usd, found.source.as_of) == (Decimal("55.04"), "2026-11-20")


def test_a_row_of_nothing_is_no_price(aws: Emulator) -> None:
    assert price(aws, [ec2_row("p5.48xlarge", "0.0000000000")], P5) is None


def test_two_prices_are_no_price(aws: Emulator) -> None:
    rows = [ec2_row("p5.48xlarge", "55.04"), ec2_row("p5.48xlarge", "56.04")]
    assert price(aws, rows, P5) is None


def test_the_price_of_hyperpod_is_its_own(aws: Emulator) -> None:
    rows = [
        ec2_row("p5.48xlarge", "55.04"),
        row("AmazonSageMaker", "USW2-ReservedCluster:ml.p5.48xlarge", "40", component="Cluster"),
        row("AmazonSageMaker", "USW2-Train:ml.p5.48xlarge", "63.296", component="Training"),
        row("AmazonSageMaker", "USW2-Cluster:ml.p5.4xlarge", "8", component="Cluster"),
        row("AmazonSageMaker", "USW2-Cluster:ml.p5.48xlarge", "64.9", component="Cluster"),
    ]
    assert price(aws, rows, HYPERPOD_P5) == Decimal("64.9")


@pytest.mark.parametrize(
    ("name", "found", "beside"),
    [
        ("eks-cluster", ("AmazonEKS", "USW2-AmazonEKS-Hours:perCluster"), "USW2-AmazonEKS-Hours:extendedSupport"),
        ("nat-gateway", ("AmazonEC2", "USW2-NatGateway-Hours"), "USW2-RegionalNatGateway-Hours"),
        ("interface-endpoint", ("AmazonVPC", "USW2-VpcEndpoint-Hours"), "USW2-VpcEndpoint-GWLBE-Hours"),
        ("gp3", ("AmazonEC2", "USW2-EBS:VolumeUsage.gp3"), "USW2-EBS:VolumeP-IOPS.gp3"),
        ("kms-key", ("awskms", "us-west-2-KMS-Keys"), "us-west-2-KMS-Requests"),
        ("lustre-persistent-2-500", ("AmazonFSx", "USW2-Storage.SSD.500"), "USW2-Storage.SSD.50"),
        ("public-ipv4", ("AmazonVPC", "USW2-PublicIPv4:InUseAddress"), "USW2-PublicIPv4:IdleAddress"),
    ],
)
def test_services_are_found_by_their_usage_types(aws: Emulator, name: str, found: tuple[str, str], beside: str) -> None:
    query = query_of(service(name))
    assert query is not None
    rows = [row(found[0], found[1], "0.123", **query.filters), row(found[0], beside, "0.9", **query.filters)]
    assert price(aws, rows, service(name)) == Decimal("0.123")


def test_us_east_1_has_no_name_in_a_usage_type(aws: Emulator) -> None:
    rows = [ec2_row("p5.48xlarge", "55.04", usage="BoxUsage:p5.48xlarge", regionCode="us-east-1")]
    assert price(aws, rows, Item(PriceKind.ON_DEMAND, "us-east-1", "p5.48xlarge")) == Decimal("55.04")


def test_the_first_tier_of_a_price_counts(aws: Emulator) -> None:
    query = query_of(service("nat-gateway-data"))
    assert query is not None
    tiered = row("AmazonEC2", "USW2-NatGateway-Bytes", "0.045", **query.filters)
    (offer,) = tiered["terms"]["OnDemand"].values()
    offer["priceDimensions"]["second"] = {"unit": "GB", "beginRange": "1024", "pricePerUnit": {"USD": "0.040"}}
    assert price(aws, [tiered], service("nat-gateway-data")) == Decimal("0.045")


def test_spot_is_the_highest_of_the_zones_newest_prices(aws: Emulator) -> None:
    def spot(zone: str, usd: str, at: str) -> dict[str, Any]:
        own = {"InstanceType": "p5.48xlarge", "ProductDescription": "Linux/UNIX"}
        return {**own, "AvailabilityZone": zone, "AvailabilityZoneId": zone, "SpotPrice": usd, "Timestamp": at}

    history = [
        spot("usw2-az1", "99.0", "2026-11-24T00:00:00Z"),
        spot("usw2-az1", "12.5", "2026-11-25T00:00:00Z"),
        spot("usw2-az2", "13.25", "2026-11-25T01:00:00Z"),
    ]
    aws.sell({"spot_prices": history})
    found = live_prices([SPOT_P5])(SPOT_P5)
    assert found is not None
    assert (found.usd, found.source.as_of) == (Decimal("13.25"), "2026-11-25")


def test_what_aws_does_not_answer_has_the_price_of_the_table(aws: Emulator) -> None:
    aws.sell({"price_list": []}, "us-east-1")
    prices = live_prices([P5, service("kms-key")])
    assert prices(P5) == listed_price(P5)
    assert prices(service("lustre-persistent-2-500")) is None


def test_a_plan_with_live_prices_says_their_day(aws: Emulator) -> None:
    lustre = row(
        "AmazonFSx",
        "USW2-Storage.SSD.500",
        "0.34",
        productFamily="Storage",
        fileSystemType="Lustre",
        published="2026-11-24",
    )
    aws.sell({"price_list": [lustre, ec2_row("p5.48xlarge", "56")]}, "us-east-1")
    ran = CliRunner().invoke(app, ["plan", str(ROOT / "examples/eks-p5.yaml"), "--live-prices", "--json"])
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)["price"]
    lines = {line["name"]: line for line in document["lines"]}
    assert lines["lustre"]["usd_per_month"] == pytest.approx(9600 * 0.34)
    assert lines["lustre"]["as_of"] == "2026-11-24"
    assert lines["train"]["usd_per_hour"] == 4 * 56
    assert document["total"]["without"] == []


def test_every_service_of_the_examples_can_be_asked_for() -> None:
    """Those without a query have no known usage type, and keep the price of the table."""
    without = {name for name in SERVICE_UNITS if query_of(service(name)) is None}
    assert without == {
        "eks-cluster-extended",
        *(f"eks-tier-{size}" for size in ("xl", "2xl", "4xl", "8xl")),
        "hyperpod-volume",
        "lustre-intelligent-tiering-throughput",
        "lustre-scratch-2",
        "metrics-collected",
        "metrics-collector",
        "metrics-samples",
        "metrics-samples-next",
        *(f"openzfs-single-az{ha}-{what}" for ha in ("", "-ha") for what in ("storage", "throughput")),
        "s3-standard",
        "sagemaker-volume",
    }


def test_without_credentials_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(UsageError, match="AWS's prices cannot be read"):
        live_prices([P5])
