"""A budget counts the costs of a tag that the resources have, and refuses what AWS would not do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.people import with_people
from tests.seams.test_templates import lint
from tests.service_model import problems
from tests.synthesis import templates_of
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError

PLATFORM: dict[str, Any] = {
    "name": "atlas",
    "region": "us-west-2",
    "zones": ["usw2-az2", "usw2-az1"],
    "orchestrator": "eks",
    "node_groups": [{"name": "train", "instance_type": "g5.8xlarge", "count": 1}],
}
BUDGET = {"monthly_usd": 20000, "notify": "finance@example.com"}
TWO_TAGS: dict[str, Any] = {
    "tags": {"Platform": "atlas", "Team": "research"},
    "budget": BUDGET | {"tag": "Platform"},
}


def file_with(tmp_path: Path, **changes: Any) -> Path:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(PLATFORM | changes)), encoding="utf-8")
    return file


def test_a_budget_counts_the_tag_and_notifies(tmp_path: Path) -> None:
    file = file_with(tmp_path, **TWO_TAGS)
    made = templates_of(file)["observability"]["Resources"]
    (budget,) = (each["Properties"] for each in made.values() if each["Type"] == "AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 20000, "Unit": "USD"}
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:Platform$atlas"]}
    told = [
        (each["Notification"]["NotificationType"], each["Notification"]["Threshold"], each["Subscribers"])
        for each in budget["NotificationsWithSubscribers"]
    ]
    finance = [{"SubscriptionType": "EMAIL", "Address": "finance@example.com"}]
    assert told == [("ACTUAL", 80, finance), ("ACTUAL", 100, finance), ("FORECASTED", 100, finance)]
    (topic,) = (each["Properties"] for each in made.values() if each["Type"] == "AWS::SNS::Topic")
    assert {"Key": "Platform", "Value": "atlas"} in topic["Tags"]


def test_the_registry_and_the_api_take_the_budget(tmp_path: Path) -> None:
    """cfn-lint reads the stack, and botocore's model the request that CloudFormation makes of the budget."""
    file = file_with(tmp_path, **TWO_TAGS)
    stack = templates_of(file)["observability"]
    assert lint(json.dumps(stack), "us-west-2") == ()
    (budget,) = (each["Properties"] for each in stack["Resources"].values() if each["Type"] == "AWS::Budgets::Budget")
    limit = budget["Budget"]["BudgetLimit"]
    # The API has the amount as text.
    sent = {**budget["Budget"], "BudgetLimit": {**limit, "Amount": str(limit["Amount"])}}
    asked = {"AccountId": "111122223333", "NotificationsWithSubscribers": budget["NotificationsWithSubscribers"]}
    assert problems("budgets", "CreateBudget", asked | {"Budget": sent}) == []
    assert problems("budgets", "CreateBudget", asked | {"Budget": {**sent, "TimeUnit": "FORTNIGHTLY"}}) != []


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        ({"budget": BUDGET}, "has no tags", "add a tag, for example `tags: {Platform: atlas}`"),
        ({"budget": BUDGET, "tags": {"A": "1", "B": "2"}}, "has 2 tags", "set `tag` to one of A, B"),
        ({"budget": BUDGET | {"tag": "C"}, "tags": {"A": "1"}}, "no such tag", "write one of A"),
        ({"budget": {"monthly_usd": 1}, "tags": {"A": "1"}}, "nobody is notified", "add `notify`"),
        ({"budget": BUDGET | {"at_percent": [80, 80]}, "tags": {"A": "1"}}, "twice", "remove one"),
        ({"budget": BUDGET | {"monthly_usd": 0}, "tags": {"A": "1"}}, "monthly_usd", ""),
        (
            {"budget": BUDGET, "tags": {"A": "1"}, "region": "eu-north-1", "zones": ["eun1-az2", "eun1-az3"]},
            "no AWS::Budgets::Budget in eu-north-1",
            "create the budget by the console",
        ),
    ],
)
def test_a_budget_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str, remedy: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_platform(file_with(tmp_path, **changes))
    text = str(caught.value)
    assert problem in text and remedy in text


def test_the_only_tag_and_the_address_of_alarms_are_the_defaults(tmp_path: Path) -> None:
    observability = {"notify": "ml-oncall@example.com"}
    file = file_with(tmp_path, tags={"Team": "research"}, budget={"monthly_usd": 5}, observability=observability)
    made = templates_of(file)["observability"]["Resources"]
    (budget,) = (each["Properties"] for each in made.values() if each["Type"] == "AWS::Budgets::Budget")
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:Team$research"]}
    assert {each["Subscribers"][0]["Address"] for each in budget["NotificationsWithSubscribers"]} == {
        "ml-oncall@example.com"
    }
