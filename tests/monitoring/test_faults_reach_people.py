"""A fault reaches an inbox through the rules and the alert manager that each orchestrator's templates deploy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from emulator import running
from tests.monitoring.alert_inbox import Inbox, inbox, written
from tests.monitoring.test_alarms import CASES, platform, promtool, twins
from tests.synthesis import ROOT, all_resources, templates_of
from trainway.monitoring.rules import prometheus_alarms
from trainway.spec.facts.catalogue import load_catalogue

# The example of each orchestrator whose templates are reviewed. None of them has a key for its collector.
EXAMPLES = {
    "eks": "platform.yaml",
    "hyperpod-eks": "examples/hyperpod-eks-shared.yaml",
    "hyperpod-slurm": "examples/hyperpod-slurm-p5en.yaml",
}
FAULTS = {
    "a GPU reports Xid 79": "XidReplace",
    "a node is dead": "NodeUnhealthy",
    "a disk is full": "DiskNearlyFull",
    "an exporter is lost": "ExporterGone",
    "the loss is not a number": "LossNotFinite",
    "a run hangs": "RunHangs",
}
# Alarms of docs/alarms.md that a template does not have, with the reason.
ABSENT = {
    "eks": {
        "CapacityScheduleFailed": "no group has a Capacity Block with times",
        "AgentFinding": "EKS's own agent repairs nodes, and the alarms on Xids and on nodes tell of their faults",
        "JobsWaitForFreeNodes": "there are no teams, and so no queues",
    },
    "hyperpod-eks": {
        "AgentFinding": "HyperPod sends an event of each finding: NodeUnhealthy in docs/events.md",
        "CapacityScheduleFailed": "HyperPod starts and ends its capacity itself",
        "QuotaNearlyUsed": "CloudWatch does not count the quotas of HyperPod",
        "LustreExportBehind": "teams share the file system, which is not linked to the bucket",
        **dict.fromkeys(
            ("EfaPathsLost", "ExporterBlind", "OutOfMemory"),
            "AWS does not publish that the add-on stores these metrics",
        ),
    },
    "hyperpod-slurm": {
        "CapacityScheduleFailed": "HyperPod starts and ends its capacity itself",
        "QuotaNearlyUsed": "CloudWatch does not count the quotas of HyperPod",
        "JobsWaitForFreeNodes": "Slurm has no Kueue",
    },
}


def text_of(value: Any, topic: str) -> str:
    """Return a value of a template, with `topic` where it imports the ARN of the topic."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(text_of(part, topic) for part in parts)
        case {"Ref": "AWS::Region"}:
            return "us-west-2"
        case {"Fn::ImportValue": str(name)} if "AlertsTopic" in name:
            return topic
    raise AssertionError(value)


def deployed(orchestrator: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the rules that a deploy installs, by the names of alarms, and the definition of its alert manager."""
    templates = templates_of(ROOT / EXAMPLES[orchestrator])
    (rules,) = all_resources(templates, "AWS::APS::RuleGroupsNamespace").values()
    (workspace,) = all_resources(templates, "AWS::APS::Workspace").values()
    (group,) = yaml.safe_load(rules["Data"])["groups"]
    return {each["alert"]: each for each in group["rules"]}, text_of(workspace["AlertManagerDefinition"], "TOPIC")


def case_of(rule: dict[str, Any]) -> dict[str, Any]:
    """Return the series at which a rule fires. An alarm may have another expression under another orchestrator."""
    for case in CASES[rule["alert"]]:
        found = prometheus_alarms(platform(case["under"]), load_catalogue())
        if any(each.name == rule["alert"] and each.conditions[0].promql == rule["expr"] for each in found):
            return dict(case)
    raise AssertionError(f"no case has the expression of {rule['alert']}")


# An orchestrator, the rules that it deploys by the names of alarms, and the inbox of those who are told.
Told = tuple[str, dict[str, dict[str, Any]], Inbox]


@pytest.fixture(scope="module", params=EXAMPLES)
def people(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Yield the name of an orchestrator, the rules that it deploys, and the inbox of those who are told."""
    rules, definition = deployed(request.param)
    with running() as emulator, inbox(tmp_path_factory.mktemp("alerts"), definition, emulator) as found:
        yield request.param, rules, found


def test_each_fault_reaches_the_inbox(people: Told, tmp_path: Path) -> None:
    _, rules, found = people
    for fault, alarm in FAULTS.items():
        rule, case = rules[alarm], case_of(rules[alarm])
        fires, _ = twins(alarm, case)
        assert promtool(tmp_path, {alarm: ({"groups": [{"name": "deployed", "rules": [rule]}]}, [fires])}) == "", fault
        (expected,) = fires["alert_rule_test"][0]["exp_alerts"]
        found.alert(alarm, expected["exp_labels"], expected["exp_annotations"])
        text = found.message(f"Trainway: firing: {alarm}")
        assert expected["exp_annotations"]["summary"] in text and f"docs/alarms.md#{alarm.lower()}" in text, fault


@pytest.mark.parametrize("orchestrator", EXAMPLES)
def test_every_alarm_of_the_page_is_deployed_or_has_a_reason(orchestrator: str) -> None:
    page = (ROOT / "docs" / "alarms.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    rules, _ = deployed(orchestrator)
    templates = templates_of(ROOT / EXAMPLES[orchestrator])
    types = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::LogAlarm")
    by_cloudwatch = [name for each in types for _, name in all_resources(templates, each)]
    missing = {name for name in described - set(rules) if not any(key.startswith(name) for key in by_cloudwatch)}
    assert missing == set(ABSENT[orchestrator])


@pytest.mark.parametrize("orchestrator", EXAMPLES)
def test_an_alert_is_sent_within_a_minute(orchestrator: str, tmp_path: Path) -> None:
    """The service waits `group_wait` for other series of the alarm. The rule of an Xid waits for nothing."""
    rules, definition = deployed(orchestrator)
    assert written(tmp_path, definition)["route"]["group_wait"] == "10s"
    assert rules["XidReplace"]["for"] == "0m"


def test_a_rule_that_never_fires_is_found(tmp_path: Path) -> None:
    rules, _ = deployed("eks")
    fires, _ = twins("XidReplace", case_of(rules["XidReplace"]))
    never = rules["XidReplace"] | {"expr": "vector(0) > 1"}
    assert promtool(tmp_path, {"XidReplace": ({"groups": [{"name": "deployed", "rules": [never]}]}, [fires])}) != ""
