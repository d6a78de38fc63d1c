"""Preflight warns of reserved capacity that is less than its groups grow to, or than the teams are guaranteed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.preflight.aws import AwsQuestions
from trainway.preflight.check import Inquiry
from trainway.preflight.checks import CHECKS
from trainway.preflight.finding import FindingLevel
from trainway.spec.platform import Platform

P5 = "p5.48xlarge"
RESERVATION, BLOCK = {"reservation": "cr-0123456789abcdef0"}, {"capacity_block": "cr-0fedcba9876543210"}
PLAN = {"training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/a"}
TEAMS = [{"name": "research", "guarantee": {P5: 12}}, {"name": "product", "guarantee": {P5: 4}}]
HYPERPOD = {"orchestrator": "hyperpod-eks"}


def group(capacity: Any, count: int, most: int | None = None, name: str = "train") -> dict[str, Any]:
    return {"name": name, "instance_type": P5, "count": count, "max_count": most, "capacity": capacity}


class Account:
    """An account in which every reservation, block, and plan is active and has the same number of instances."""

    number, region = "111122223333", "us-west-2"

    def __init__(self, total: int, **more: Any) -> None:
        """Set the number of instances, all of which are free, and what else EC2 says of a reservation."""
        self.counts = {"TotalInstanceCount": total, "AvailableInstanceCount": total, **more}

    def ask(self, _service: str, call: str, **words: Any) -> dict[str, Any] | None:
        """Answer as EC2 and SageMaker do. Nothing is deployed."""
        if call == "get_parameter":
            return None
        if call == "describe_training_plan":
            return {"TrainingPlanName": words["TrainingPlanName"], "Status": "Active", **self.counts}
        [identifier] = words["CapacityReservationIds"]
        kind = "capacity-block" if identifier == BLOCK["capacity_block"] else "default"
        found = {"CapacityReservationId": identifier, "ReservationType": kind, "InstanceType": P5, "State": "active"}
        return {"CapacityReservations": [found | {"AvailabilityZoneId": "usw2-az2", **self.counts}]}


def found(check: str, platform: Platform, total: int, **more: Any) -> list[tuple[FindingLevel, str, str, str]]:
    aws = cast(AwsQuestions, Account(total, **more))
    inquiry = Inquiry(platform, CATALOGUE, aws, NOW)
    (function,) = (each.function for each in CHECKS if each.name == check)
    return [(each.level, each.what, each.why, each.fix) for each in function(inquiry)]


NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
GROWS = "may grow to 16 nodes"
GUARANTEED = "the guarantees of the teams need 16 of its nodes"
NO_SCALING = {"kubernetes": {"autoscaling": False}}


@pytest.mark.parametrize(
    ("check", "groups", "teams", "more", "total", "words"),
    [
        ("reservations", [group(RESERVATION, 4, 16)], TEAMS, {}, 4, [f"train {GROWS}, and {GUARANTEED}", "to 4"]),
        ("reservations", [group(RESERVATION, 4, 16)], TEAMS, {}, 15, [GROWS, GUARANTEED]),
        ("reservations", [group(RESERVATION, 4, 16)], TEAMS, {}, 16, None),
        ("reservations", [group(RESERVATION, 4, 16)], [], {}, 4, [GROWS, "or lower max_count to 4"]),
        ("reservations", [group(RESERVATION, 4, 16)], TEAMS, NO_SCALING, 4, [GUARANTEED, "or lower the guarantees"]),
        ("reservations", [group(RESERVATION, 4, 16)], [], NO_SCALING, 4, None),
        ("reservations", [group(RESERVATION, 4)], [], {}, 4, None),
        (
            "reservations",
            [group(RESERVATION, 2, 8), group(RESERVATION, 2, 8, "more")],
            [],
            {},
            4,
            [f"train and more {GROWS}", "enlarge the reservation"],
        ),
        # The nodes beyond the reservation are of another group.
        ("reservations", [group(RESERVATION, 4), group("on-demand", 0, 12, "more")], TEAMS, {}, 4, None),
        ("capacity-blocks", [group(BLOCK, 4, 16)], TEAMS, {}, 4, [GUARANTEED, "buy a larger block"]),
        ("capacity-blocks", [group(BLOCK, 4, 16)], [], {}, 4, None),
        ("training-plans", [group(PLAN, 4, 64)], [], HYPERPOD, 4, None),
        ("training-plans", [group(PLAN, 4, 64)], TEAMS, HYPERPOD, 4, [GUARANTEED, "the training plan a has 4"]),
    ],
)
def test_reserved_capacity_is_compared_with_the_growth_and_with_the_guarantees(
    check: str,
    groups: list[dict[str, Any]],
    teams: list[dict[str, Any]],
    more: dict[str, Any],
    total: int,
    words: list[str] | None,
) -> None:
    platform = platform_of(node_groups=groups, teams=teams, **more)
    findings = found(check, platform, total)
    if words is None:
        assert findings == []
        return
    [(level, *sentences)] = findings
    assert level is FindingLevel.WARNING
    for each in words:
        assert each in "\n".join(sentences)


def test_too_few_instances_for_the_first_nodes_are_still_an_error() -> None:
    platform = platform_of(node_groups=[group(RESERVATION, 4, 16)], teams=TEAMS)
    [(level, what, _, _)] = found("reservations", platform, 3)
    assert (level, what) == (FindingLevel.ERROR, "cr-0123456789abcdef0 has 3 instances")


@pytest.mark.parametrize(
    ("more", "level", "words"),
    [
        ({"EndDate": NOW + timedelta(days=3)}, FindingLevel.WARNING, ("in 72 hours", "--end-date-type unlimited")),
        ({"EndDate": NOW - timedelta(hours=1)}, FindingLevel.ERROR, ("ended at", "write another id")),
        ({"Tenancy": "dedicated"}, FindingLevel.ERROR, ("of the tenancy dedicated", "tenancy default")),
        ({"Tenancy": "default"}, None, ()),
    ],
)
def test_a_reservation_that_ends_or_is_for_other_instances_is_told(
    more: dict[str, Any], level: FindingLevel | None, words: tuple[str, str]
) -> None:
    told = found("reservations", platform_of(node_groups=[group(RESERVATION, 4)]), 4, **more)
    if level is None:
        assert told == []
        return
    ((said, what, _, fix),) = told
    assert said is level and words[0] in what and words[1] in fix


def test_a_block_that_ends_as_its_group_does_is_not_told_as_a_reservation_that_ends() -> None:
    platform = platform_of(node_groups=[group(BLOCK, 4)])
    assert found("capacity-blocks", platform, 4, EndDate=NOW + timedelta(days=3)) == []
