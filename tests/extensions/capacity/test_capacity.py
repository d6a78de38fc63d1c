"""`trainway capacity` on an emulated AWS, whose requests and responses botocore's models check."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from emulator import Emulator
from tests.people import with_people
from trainway.cli import app
from trainway.extensions.capacity.write import with_key
from trainway.spec.errors import UsageError
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError
from trainway.spec.sections.capacity import CapacityBlock, TrainingPlan

START, END = "2026-12-01T11:30:00Z", "2026-12-08T11:30:00Z"
BLOCK, LATER, PLAN = "cbr-0aaa", "cbr-0bbb", "tpo-0ccc"

TEXT = """\
name: atlas
region: us-west-2
zones: [usw2-az2, usw2-az1] # the capacity's zone first
orchestrator: {orchestrator}
node_groups:
  # Trains.
  - name: train # with a name
    instance_type: p5.48xlarge
    count: 4
    # Ask ada before you change this.
    capacity: on-demand # for now
    max_count: 8
  - {{name: data, instance_type: m7i.8xlarge, count: 0, max_count: 2}} # the last line of the groups
kubernetes:
  admins: ["arn:aws:iam::111122223333:role/platform"]
"""


def block(identity: str, usd: str, zone: str = "us-west-2a", **changes: Any) -> dict[str, Any]:
    usual = {
        "CapacityBlockOfferingId": identity,
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": zone,
        "InstanceCount": 4,
        "StartDate": START,
        "EndDate": END,
        "CapacityBlockDurationHours": 168,
        "UpfrontFee": usd,
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }
    return usual | changes


def plan(
    identity: str, usd: str, zone: str = "us-west-2a", targets: tuple[str, ...] = ("hyperpod-cluster",)
) -> dict[str, Any]:
    reserved = {
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 4,
        "AvailabilityZone": zone,
        "StartTime": START,
        "EndTime": END,
    }
    return {
        "TrainingPlanOfferingId": identity,
        "TargetResources": list(targets),
        "RequestedStartTimeAfter": START,
        "RequestedEndTimeBefore": END,
        "DurationHours": 168,
        "UpfrontFee": usd,
        "CurrencyCode": "USD",
        "ReservedCapacityOfferings": [reserved],
    }


@pytest.fixture
def market(aws: Emulator) -> Emulator:
    aws.sell(
        {
            "capacity_block_offerings": [
                block(LATER, "30000", "us-west-2b"),
                block(BLOCK, "21143.808"),
                block("cbr-0ddd", "9000", InstanceCount=2),
                block("cbr-0eee", "9000", CapacityBlockDurationHours=24),
            ],
            "training_plan_offerings": [plan(PLAN, "26000"), plan("tpo-0fff", "1", targets=("training-job",))],
            "quotas": [{"QuotaCode": "L-417A185B", "Value": 384.0}],
            "placement_scores": [
                {"Region": "us-west-2", "AvailabilityZoneId": "usw2-az1", "Score": 3},
                {"Region": "us-west-2", "AvailabilityZoneId": "usw2-az3", "Score": 9},
            ],
            "spot_prices": [
                {
                    "InstanceType": "p5.48xlarge",
                    "AvailabilityZoneId": "usw2-az3",
                    "SpotPrice": "12.97",
                    "Timestamp": START,
                }
            ],
        }
    )
    return aws


def platform_file(tmp_path: Path, orchestrator: str = "eks") -> Path:
    file = tmp_path / "platform.yaml"
    file.write_text(TEXT.format(orchestrator=orchestrator), encoding="utf-8")
    return file


def capacity(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["capacity", *map(str, arguments)])


def offers(*arguments: object) -> list[dict[str, Any]]:
    ran = capacity(*arguments, "--json")
    assert ran.exit_code == 0, ran.output
    found: list[dict[str, Any]] = json.loads(ran.stdout)["offers"]
    return found


def test_eks_is_offered_blocks_on_demand_and_spot_the_cheapest_first(market: Emulator, tmp_path: Path) -> None:
    del market
    found = offers(platform_file(tmp_path))
    assert [(each["kind"], each["id"], each["zones"]) for each in found] == [
        ("capacity-block", BLOCK, ["usw2-az2"]),
        ("capacity-block", LATER, ["usw2-az1"]),
        ("on-demand", None, []),
        ("spot", None, ["usw2-az3"]),
        ("spot", None, ["usw2-az1"]),
    ]
    first = found[0]
    assert (first["usd"], first["usd_per_node_hour"]) == (21143.808, 31.464)
    assert (first["start"], first["end"]) == ("2026-12-01T11:30Z", "2026-12-08T11:30Z")
    assert found[2]["usd_per_node_hour"] == 55.04
    assert "the quota L-417A185B allows 2 nodes in all, 2 too few" in found[2]["note"]
    assert found[3]["usd_per_node_hour"] == 12.97 and "score 9 of 10" in found[3]["note"]
    assert found[4]["usd_per_node_hour"] is None


def test_hyperpod_is_offered_plans_for_clusters_only(market: Emulator, tmp_path: Path) -> None:
    del market
    found = offers(platform_file(tmp_path, "hyperpod-eks"))
    plans = [each for each in found if each["kind"] == "training-plan"]
    assert [(each["id"], each["zones"], each["usd"]) for each in plans] == [(PLAN, ["usw2-az2"], 26000.0)]
    assert not [each for each in found if each["kind"] == "capacity-block"]
    (on_demand,) = (each for each in found if each["kind"] == "on-demand")
    assert on_demand["usd_per_node_hour"] is None, "HyperPod's price is not EC2's"


def test_the_request_narrows_the_time(market: Emulator, tmp_path: Path) -> None:
    del market
    file = platform_file(tmp_path)
    assert [each["id"] for each in offers(file, "--from", "2026-12-02") if each["id"]] == []
    assert [each["id"] for each in offers(file, "--until", "2026-12-09") if each["id"]] == [BLOCK, LATER]
    assert [each["id"] for each in offers(file, "--hours", 24, "--count", 4) if each["id"]] == ["cbr-0eee"]


def test_other_regions_are_asked_and_those_without_an_answer_are_named(market: Emulator, tmp_path: Path) -> None:
    market.sell({"capacity_block_offerings": [block("cbr-0999", "1", "us-east-2b")]}, "us-east-2")
    found = offers(platform_file(tmp_path), "--region", "us-east-2", "--region", "us-west-2")
    assert next((each["region"], each["zones"]) for each in found if each["kind"] == "capacity-block") == (
        "us-east-2",
        ["use2-az2"],
    )


def test_a_block_is_bought_and_written_into_the_file_with_its_comments(market: Emulator, tmp_path: Path) -> None:
    file = platform_file(tmp_path)
    before = len(market.bought())
    ran = capacity(file, "--buy", BLOCK, "--write", "--yes")
    assert ran.exit_code == 0, ran.output
    (bought,) = market.bought()[before:]
    assert bought["operation"] == "PurchaseCapacityBlock" and bought["CapacityBlockOfferingId"] == BLOCK
    train, _ = load_platform(file).node_groups
    assert isinstance(train.capacity, CapacityBlock)
    assert (train.capacity.start, train.capacity.end) == (
        datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
        datetime(2026, 12, 8, 11, 30, tzinfo=UTC),
    )
    lines, old = file.read_text().splitlines(), TEXT.format(orchestrator="eks").splitlines()
    changed = [(was, now) for was, now in zip(old, lines, strict=True) if was != now]
    assert changed == [
        (
            "    capacity: on-demand # for now",
            f"    capacity: {{capacity_block: {train.capacity.capacity_block}, start: 2026-12-01T11:30Z, "
            "end: 2026-12-08T11:30Z} # for now",
        )
    ]


def test_the_zone_of_the_purchase_becomes_that_of_the_group(market: Emulator, tmp_path: Path) -> None:
    del market
    file = platform_file(tmp_path)
    assert capacity(file, "--buy", LATER, "--write", "--yes").exit_code == 0
    platform = load_platform(file)
    assert platform.zone_of(platform.node_groups[0]) == "usw2-az1"


def test_a_purchase_in_a_zone_that_the_platform_lacks_leaves_the_file(market: Emulator, tmp_path: Path) -> None:
    market.sell({"capacity_block_offerings": [block(BLOCK, "1", "us-west-2c")]})
    file = platform_file(tmp_path)
    ran = capacity(file, "--buy", BLOCK, "--write", "--yes")
    assert isinstance(ran.exception, SpecError), ran.output
    assert file.read_text() == TEXT.format(orchestrator="eks")
    assert "bought: cr-" in ran.stdout, "what was bought is said before the file is refused"


def test_a_plan_is_bought_and_its_section_printed(market: Emulator, tmp_path: Path) -> None:
    file = platform_file(tmp_path, "hyperpod-eks")
    ran = capacity(file, "--buy", PLAN, "--yes")
    assert ran.exit_code == 0, ran.output
    bought = market.bought()[-1]
    assert bought["operation"] == "CreateTrainingPlan" and bought["TrainingPlanName"].startswith("atlas-train-")
    section = ran.stdout.splitlines()[-1]
    assert section.startswith('capacity: {training_plan: "arn:aws:sagemaker:us-west-2:123456789012:training-plan/atlas')
    text = with_key(file.read_text(), "train", "capacity", section.removeprefix("capacity: "))
    file.write_text(text)
    assert isinstance(load_platform(file).node_groups[0].capacity, TrainingPlan)


@pytest.mark.parametrize("orchestrator", ["eks", "hyperpod-eks"])
def test_nothing_is_bought_without_a_yes(market: Emulator, tmp_path: Path, orchestrator: str) -> None:
    before = market.bought()
    offering = BLOCK if orchestrator == "eks" else PLAN
    ran = capacity(platform_file(tmp_path, orchestrator), "--buy", offering)
    assert isinstance(ran.exception, UsageError) and "no terminal to ask at" in str(ran.exception)
    assert market.bought() == before


def test_an_offering_that_is_gone_is_not_bought(market: Emulator, tmp_path: Path) -> None:
    before = market.bought()
    ran = capacity(platform_file(tmp_path), "--buy", "cbr-0123", "--yes")
    assert isinstance(ran.exception, UsageError) and "does not offer it any more" in str(ran.exception)
    assert market.bought() == before


def test_a_block_is_extended_by_the_cheapest_offer(aws: Emulator, tmp_path: Path) -> None:
    def more(identity: str, usd: str) -> dict[str, Any]:
        return {
            "CapacityBlockExtensionOfferingId": identity,
            "CapacityBlockExtensionEndDate": "2026-12-09T11:30:00Z",
            "CapacityBlockExtensionDurationHours": 24,
            "UpfrontFee": usd,
            "CurrencyCode": "USD",
        }

    aws.sell({"capacity_block_extensions": [more("cbe-1", "4000"), more("cbe-2", "3000")]})
    file = platform_file(tmp_path)
    ran = capacity(file, "--extend", "cr-0123456789abcdef0", "--hours", 24, "--yes")
    assert ran.exit_code == 0, ran.output
    bought = aws.bought()[-1]
    assert (bought["operation"], bought["CapacityBlockExtensionOfferingId"]) == (
        "PurchaseCapacityBlockExtension",
        "cbe-2",
    )
    refused = capacity(file, "--extend", "cr-0123456789abcdef0", "--hours", 48, "--yes")
    assert isinstance(refused.exception, UsageError) and "no 48 hours more" in str(refused.exception)


def test_a_plan_is_extended(aws: Emulator, tmp_path: Path) -> None:
    more = {"TrainingPlanExtensionOfferingId": "tpe-1", "EndDate": END, "DurationHours": 24, "UpfrontFee": "5000"}
    aws.sell({"training_plan_extensions": [more]})
    arn = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/atlas"
    ran = capacity(platform_file(tmp_path, "hyperpod-eks"), "--extend", arn, "--hours", 24, "--yes")
    assert ran.exit_code == 0, ran.output
    assert aws.bought()[-1] == {"operation": "ExtendTrainingPlan", "TrainingPlanExtensionOfferingId": "tpe-1"}


def test_a_block_of_another_type_is_not_used(market: Emulator, tmp_path: Path) -> None:
    market.sell(
        {
            "capacity_reservations": [
                {
                    "CapacityReservationId": "cr-0123456789abcdef0",
                    "InstanceType": "p4d.24xlarge",
                    "AvailabilityZone": "us-west-2a",
                    "TotalInstanceCount": 4,
                    "State": "scheduled",
                }
            ]
        }
    )
    ran = capacity(platform_file(tmp_path), "--use", "cr-0123456789abcdef0")
    assert isinstance(ran.exception, UsageError)
    assert "it is of p4d.24xlarge, and the group train of p5.48xlarge" in str(ran.exception)


def test_the_table_says_how_to_buy(market: Emulator, tmp_path: Path) -> None:
    del market
    text = capacity(platform_file(tmp_path)).stdout
    assert "4 × p5.48xlarge for 168 hours:" in text
    row = f"capacity-block usw2-az2 2026-12-01T11:30Z 2026-12-08T11:30Z $21,143.81 $31.46 {BLOCK}"
    assert row in [" ".join(line.split()) for line in text.splitlines()]
    assert "`--buy OFFERING` buys one." in text


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("- {name: train, count: 1}", "- {name: train, count: 1, capacity: spot}"),
        ("- {name: train, count: 1, }", "- {name: train, count: 1, capacity: spot, }"),
        ("- {name: train, capacity: on-demand, count: 1}", "- {name: train, capacity: spot, count: 1}"),
        ("- name: train\n  count: 1 # one", "- name: train\n  count: 1 # one\n  capacity: spot"),
        (
            "- name: train\n  capacity:\n    reservation: cr-1\n  count: 1",
            "- name: train\n  capacity: spot\n  count: 1",
        ),
        ("- name: train\n  capacity:\n    reservation: cr-1\n", "- name: train\n  capacity: spot\n"),
        (
            "- name: train\n  capacity:\n    reservation: cr-1 # ada's\n  # How many.\n  count: 1",
            "- name: train\n  capacity: spot # ada's\n  # How many.\n  count: 1",
        ),
        ("- name: train\n  or_types: [a,\n    b]\n", "- name: train\n  or_types: [a,\n    b]\n  capacity: spot\n"),
    ],
)
def test_a_key_is_set_in_every_style(group: str, expected: str) -> None:
    changed = with_key(f"node_groups:\n{group}", "train", "capacity", "spot")
    body = changed.removeprefix("node_groups:\n")
    assert (body, yaml.safe_load(changed)["node_groups"][0]["capacity"]) == (expected, "spot")


def test_a_group_has_to_be_named_if_there_are_two(tmp_path: Path) -> None:
    document = {
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
        "node_groups": [
            {"name": "a", "instance_type": "p5.48xlarge", "count": 1},
            {"name": "b", "instance_type": "g5.8xlarge", "count": 1},
        ],
    }
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(document)), encoding="utf-8")
    for arguments in ((), ("--group", "c")):
        ran = capacity(file, *arguments)
        assert isinstance(ran.exception, UsageError) and "a, b" in str(ran.exception)
