"""The table of Regions, zones, and types is what its sources say, and where they disagree is known."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from tests.data_files import installed_file
from tests.moto_server import moto_server
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.offerings import FILE, family_of, load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.network.region_rules import zone_prefix
from trainway.spec.refresh_offerings import Answers, differences, refreshed

TABLE = load_offerings()
RECORDED = installed_file("moto", "ec2/resources/instance_type_offerings/availability-zone-id")
SCHEMAS = installed_file("cfnlint", "data/schemas")
# EC2 and the Price List disagree about these types. Where EC2 has them without a price, they are sold as Capacity
# Blocks. The others are in one of the two sources only because it is older, but for p4d in Singapore, which is a relic.
OFFERED_WITHOUT_A_PRICE = {
    "p5e.48xlarge": ["ap-southeast-2", "ap-southeast-3", "eu-north-1", "eu-west-2", "sa-east-1", "us-west-2"],
    "trn1.32xlarge": ["ap-south-1", "ap-southeast-2", "ap-southeast-4"],
    "trn2.3xlarge": ["ap-south-2", "ap-southeast-4", "sa-east-1"],
    "trn2u.48xlarge": ["ap-south-2"],
}
PRICED_WITHOUT_AN_OFFER = {
    "c7i-flex": {"me-central-1"},
    "c8gb": {"af-south-1", "eu-central-1", "eu-north-1", "eu-west-1", "eu-west-3", "us-east-2", "us-west-1"},
    "c8gd": {"ap-northeast-2", "ap-south-1", "eu-north-1"},
    "g7e": {"ap-southeast-5"},
    "m5n": {"eu-west-1"},
    "m8gd": {"ap-southeast-1", "eu-north-1", "us-west-1"},
    "m8id": {"ap-southeast-2", "ap-southeast-5"},
    "p4d": {"ap-southeast-1"},
    "p6-b300": {"eu-west-2"},
    "r7gd": {"ca-central-1", "ca-west-1", "eu-central-2"},
    "r8i-flex": {"me-central-1"},
}


def read_json(*path: str) -> Any:
    return json.loads(SCHEMAS.joinpath(*path).read_text(encoding="utf-8"))


def prices(extension: str, prefix: str = "") -> dict[str, set[str]]:
    """The Regions with a price of each type of the catalogue, as cfn-lint has them from the Price List."""
    by_region = read_json("extensions", extension, "instancetype_enum.json")
    return {
        name: {
            region
            for region, schema in by_region.items()
            if isinstance(schema, dict) and prefix + name in schema.get("enum", ()) and region in TABLE.zones
        }
        for name in load_catalogue()
    }


def regions_with(resource_type: str) -> set[str]:
    """The Regions of the table in which CloudFormation's registry has a resource type, by cfn-lint."""
    return {
        region
        for region in TABLE.zones
        if (file := SCHEMAS.joinpath("providers", f"{region}.json")).is_file()
        and resource_type in json.loads(file.read_text(encoding="utf-8"))
    }


def test_zones_and_offers_are_those_that_ec2_answered() -> None:
    zones, offered = dict[str, set[str]](), {name: set[str]() for name in load_catalogue()}
    for file in RECORDED.iterdir():
        answers = json.loads(gzip.decompress(file.read_bytes()))
        zones[file.name.partition(".")[0]] = {each["Location"] for each in answers}
        for each in answers:
            offered.get(each["InstanceType"], set()).add(each["Location"])
    assert {region: set(found) for region, found in TABLE.zones.items() if found} == zones
    local = {zone for zones in TABLE.local_zones.values() for zone in zones}
    assert {name: set(TABLE.offered.of(name)) - local for name in offered} == offered


def test_local_zones_are_named_after_their_region_and_have_accelerators() -> None:
    for region, zones in TABLE.local_zones.items():
        for zone in zones:
            assert re.fullmatch(rf"{zone_prefix(region)}-[a-z]{{3}}\d+-az\d+", zone)
            assert zone not in TABLE.zones[region]
            accelerated = [name for name in load_catalogue() if zone in TABLE.offered.of(name)]
            assert accelerated and all(load_catalogue()[name].accelerator for name in accelerated)


def test_the_regions_are_botocores() -> None:
    session = botocore.session.get_session()
    partitions = ("aws", "aws-cn", "aws-us-gov", "aws-eusc")
    assert set(TABLE.zones) == {
        region for partition in partitions for region in session.get_available_regions("ec2", partition)
    }


@pytest.mark.parametrize("region", [region for region, zones in TABLE.zones.items() if zones])
def test_zone_ids_begin_as_their_regions_do(region: str) -> None:
    assert all(zone.startswith(f"{zone_prefix(region)}-az") for zone in TABLE.zones[region])


def test_prices_are_those_that_cfn_lint_has() -> None:
    for table, there in (
        (TABLE.on_demand, prices("aws_ec2_instance")),
        (TABLE.hyperpod, prices("aws_sagemaker_cluster", "ml.")),
    ):
        assert {name: set(table.of(name)) for name in there} == there


def test_the_regions_of_hyperpod_are_the_registrys() -> None:
    facts = service_facts().hyperpod
    assert set(facts.regions) == regions_with("AWS::SageMaker::Cluster")
    governed = regions_with("AWS::SageMaker::ClusterSchedulerConfig")
    assert set(facts.scheduler_config_regions) == governed & set(facts.regions)


def test_offers_and_prices_disagree_only_where_it_is_known() -> None:
    known = {region for region, zones in TABLE.zones.items() if zones}
    without_price, without_offer = dict[str, list[str]](), dict[str, set[str]]()
    for name in load_catalogue():
        offered, priced = set(TABLE.regions_with(name)), set(TABLE.on_demand.of(name)) & known
        if offered - priced:
            without_price[name] = sorted(offered - priced)
        if priced - offered:
            without_offer.setdefault(family_of(name), set()).update(priced - offered)
    assert without_price == OFFERED_WITHOUT_A_PRICE
    assert without_offer == PRICED_WITHOUT_AN_OFFER


def test_lustres_regions_exist() -> None:
    facts = service_facts().lustre
    assert {*facts.regions, *facts.slow_regions} <= set(TABLE.zones)
    assert not set(facts.regions) & set(facts.slow_regions)


def test_the_table_is_written_as_it_is_read() -> None:
    table = json.loads(FILE.read_text(encoding="utf-8"))
    nothing = Answers(frozenset(), {}, {})
    again = json.loads(refreshed(table, nothing, load_catalogue(), "2026-12-01"))
    assert again | {"sources": table["sources"]} == table
    assert again["sources"][0]["read"] == "2026-12-01" and again["sources"][1:] == table["sources"]


def test_what_ec2_has_opened_or_closed_is_a_line_and_written() -> None:
    zones = frozenset(TABLE.zones["us-west-2"]) - {"usw2-az4"} | {"usw2-az5"}
    offered = {name: TABLE.offered.of(name) - {"usw2-az3"} for name in load_catalogue()}
    offered["p5e.48xlarge"] = frozenset({"usw2-az5"})
    answers = Answers(frozenset({"us-west-2", "eu-north-2"}), {"us-west-2": zones}, offered)
    lines = list(differences(TABLE, answers, load_catalogue()))
    assert lines[:3] == [
        "eu-north-2: the table does not have this Region",
        "usw2-az5: the table does not have this zone of us-west-2",
        "usw2-az4: EC2 does not have this zone of us-west-2",
    ]
    assert "p5e.48xlarge: the table does not have it in usw2-az5" in lines
    assert "p5e.48xlarge: EC2 does not have it in usw2-az3" in lines
    written = json.loads(
        refreshed(json.loads(FILE.read_text(encoding="utf-8")), answers, load_catalogue(), "2026-12-01")
    )
    assert written["zones"]["us-west-2"] == ["usw2-az1", "usw2-az2", "usw2-az3", "usw2-az5"]
    assert written["zones"]["eu-north-2"] == [] and written["zones"]["us-east-1"] == list(TABLE.zones["us-east-1"])
    assert written["offered"]["p5e"] and "p5e.48xlarge" not in written["offered"]
    assert "usw2-az5" in written["offered"]["p5e"] and "usw2-az3" not in written["offered"]["p5e"]
    assert "use2-az1" in written["offered"]["p5e"], "a Region that was not asked keeps what it has"


@pytest.fixture
def aws() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.mark.exhaustive
def test_an_account_is_asked_in_each_of_its_regions(aws: str, tmp_path: Path) -> None:
    environment = os.environ | {"AWS_ENDPOINT_URL": aws, "AWS_DEFAULT_REGION": "us-east-1", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "trainway.spec.refresh_offerings"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if "EC2 does not have it" in line] == []
    assert "Regions compared" in done.stderr


def test_without_credentials_it_says_what_is_missing(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment |= {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "us-east-1"}
    done = subprocess.run(
        [sys.executable, "-m", "trainway.spec.refresh_offerings"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "ec2:DescribeInstanceTypeOfferings" in done.stderr and "Traceback" not in done.stderr
