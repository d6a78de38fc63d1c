"""A fault reaches an inbox through the rules and the alert manager that each orchestrator's templates deploy."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from emulator import running
from tests.emulator.conftest import Stack
from tests.monitoring.alert_inbox import Inbox, inbox, topic_with_queue, written
from tests.monitoring.fault_series import evaluated, stored, values_text
from tests.monitoring.faults import FAULTS, ORCHESTRATORS, Fault, series_of
from tests.monitoring.test_alarms import PLATFORMS, platform
from tests.prometheus import program
from tests.synthesis import ROOT, all_resources, templates_of
from trainway.monitoring.alarms import every_alarm
from trainway.monitoring.alert_manager import GROUP_SECONDS
from trainway.monitoring.rules import EVALUATION_SECONDS

# Seconds of the planted series at which the fault happens, and how long the stored ones last.
FAULT_AT, STORED = 2400, 4200
# The example of each orchestrator whose templates are reviewed. None of them has a key for its collector.
EXAMPLES = {
    "eks": "platform.yaml",
    "hyperpod-eks": "examples/hyperpod-eks-shared.yaml",
    "hyperpod-slurm": "examples/hyperpod-slurm-p5en.yaml",
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


# An orchestrator, the rules that it deploys by the names of alarms, and the inbox of those who are told.
Told = tuple[str, dict[str, dict[str, Any]], Inbox]


@pytest.fixture(scope="module", params=EXAMPLES)
def people(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Yield the name of an orchestrator, the rules that it deploys, and the inbox of those who are told."""
    rules, definition = deployed(request.param)
    with running() as emulator, inbox(tmp_path_factory.mktemp("alerts"), definition, emulator) as found:
        yield request.param, rules, found


def test_each_fault_reaches_the_inbox(people: Told, tmp_path: Path) -> None:
    """A real Prometheus has the series of all faults, and evaluates the deployed rules."""
    orchestrator, rules, found = people
    series = {name: each for fault in FAULTS.values() for name, each in series_of(fault, orchestrator).items()}
    database = stored(tmp_path, series, fault=FAULT_AT, seconds=STORED)
    with evaluated(tmp_path, database, list(rules.values()), found.address):
        for fault in FAULTS.values():
            text = found.message(f"Trainway: firing: {fault.alarm}")
            assert fault.told in text and f"docs/alarms.md#{fault.alarm.lower()}" in text


def seconds_of(rule: dict[str, Any]) -> int:
    """Return how long a rule waits."""
    return 60 * int(rule["for"].removesuffix("m"))


def firing(directory: Path, fault: Fault, orchestrator: str, rule: dict[str, Any], at: int) -> bool:
    """Return whether a rule fires at a second of promtool's clock, by which the fault is planted at FAULT_AT."""
    series = series_of(fault, orchestrator)
    tests = {
        "interval": f"{EVALUATION_SECONDS}s",
        "input_series": [
            {"series": name, "values": values_text(each, FAULT_AT, at + EVALUATION_SECONDS)}
            for name, each in series.items()
        ],
        "alert_rule_test": [{"eval_time": f"{at}s", "alertname": fault.alarm, "exp_alerts": []}],
    }
    rules = {"groups": [{"name": "deployed", "interval": f"{EVALUATION_SECONDS}s", "rules": [rule]}]}
    (directory / "rules.yaml").write_text(yaml.safe_dump(rules))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{EVALUATION_SECONDS}s", "tests": [tests]}
    (directory / "tests.yaml").write_text(yaml.safe_dump(document))
    command = [program("promtool"), "test", "rules", "tests.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    assert (done.returncode == 0) is not ("FAILED" in done.stdout + done.stderr), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize("orchestrator", EXAMPLES)
def test_a_rule_fires_with_the_first_evaluation_after_it_has_waited(orchestrator: str, tmp_path: Path) -> None:
    """So people are told within a minute: an evaluation follows within its interval, and a message within its wait."""
    rules, definition = deployed(orchestrator)
    wait = written(tmp_path, definition)["route"]["group_wait"]
    assert (interval_of(orchestrator), wait) == (f"{EVALUATION_SECONDS}s", f"{GROUP_SECONDS}s")
    assert EVALUATION_SECONDS + GROUP_SECONDS <= 60
    for name, fault in FAULTS.items():
        rule = rules[fault.alarm]
        due = FAULT_AT + fault.demands + seconds_of(rule)
        assert firing(tmp_path, fault, orchestrator, rule, due + EVALUATION_SECONDS), name
        assert not firing(tmp_path, fault, orchestrator, rule, due - EVALUATION_SECONDS), name


def interval_of(orchestrator: str) -> str:
    """Return how often the deployed rules are evaluated."""
    (rules,) = all_resources(templates_of(ROOT / EXAMPLES[orchestrator]), "AWS::APS::RuleGroupsNamespace").values()
    (group,) = yaml.safe_load(rules["Data"])["groups"]
    return str(group["interval"])


@pytest.mark.parametrize("orchestrator", EXAMPLES)
def test_a_full_file_system_is_mailed_within_a_minute(orchestrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated CloudWatch judges the deployed alarm every minute, by the points that FSx sends every minute."""
    templates = templates_of(ROOT / EXAMPLES[orchestrator])
    found = {
        name: each
        for name, each in templates["observability"]["Resources"].items()
        if each["Type"] == "AWS::CloudWatch::Alarm" and name.startswith("LustreNearlyFull")
    }
    (alarm,) = (each["Properties"] for each in found.values())
    assert alarm["AlarmActions"] and list(alarm["AlarmActions"][0]) == ["Ref"]
    (dimension,) = alarm["Dimensions"]
    dimension = {"FileSystemId": "fs-0123456789abcdef0"}
    with running() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        topic, sqs, queue = topic_with_queue(emulator)
        alarm |= {"AlarmActions": [topic], "Dimensions": [{"Name": "FileSystemId", "Value": dimension["FileSystemId"]}]}
        assert Stack(emulator, boto3.client("cloudformation")).deploy(found) == "CREATE_COMPLETE"
        start = datetime(2026, 12, 1, tzinfo=UTC)
        full_at, minutes = 5, alarm["EvaluationPeriods"]
        states: list[str] = []
        points: list[dict[str, Any]] = []
        for minute in range(full_at + minutes + 1):
            free = alarm["Threshold"] * (0.9 if minute >= full_at else 2)
            now = start + timedelta(minutes=minute)
            sent = {"time": now.timestamp(), "namespace": "AWS/FSx", "metric": "FreeDataStorageCapacity"}
            points.append(sent | {"dimensions": dimension, "value": free})
            states += emulator.judge_alarms(now + timedelta(seconds=60), points).values()
        # The file system has been full for as many minutes as the alarm waits, and is judged within the next one.
        assert states.index("ALARM") + 1 - full_at - minutes <= 1
        (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
        assert "Lustre file system is free" in json.loads(message["Body"])["Message"]


def test_the_page_tells_how_soon_people_are_told() -> None:
    page = (ROOT / "docs" / "alarms.md").read_text(encoding="utf-8")
    for name, fault in FAULTS.items():
        for orchestrator in EXAMPLES:
            seconds = fault.demands + seconds_of(deployed(orchestrator)[0][fault.alarm])
            waits = f"{seconds // 60} min" if seconds else "at once"
            row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
            cells = [each.strip() for each in row.strip("|").split("|")]
            assert cells[1 + ORCHESTRATORS.index(orchestrator)] == f"[{fault.alarm}](#{fault.alarm.lower()}), {waits}"
    full = next(each for each in every_alarm(platform("eks")) if each.name == "LustreNearlyFull")
    same = " | ".join([f"[{full.name}](#{full.name.lower()}), {full.minutes} min"] * len(EXAMPLES))
    assert f"| the file system is full | {same} |" in page
    waiting = {each.name: each for under in PLATFORMS for each in every_alarm(platform(under)) if each.minutes}
    rows = dict(re.findall(r"^\| (\w+) \| (\d+ min \| .+) \|$", page, re.MULTILINE))
    # No platform here has a schedule.
    assert rows.pop("CapacityScheduleFailed").startswith("5 min")
    assert rows == {name: f"{each.minutes} min | {each.because}" for name, each in waiting.items()}


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


def test_a_rule_that_never_fires_is_found(tmp_path: Path) -> None:
    fault, rules = FAULTS["a GPU reports Xid 79"], deployed("eks")[0]
    due = FAULT_AT + EVALUATION_SECONDS
    assert firing(tmp_path, fault, "eks", rules["XidReplace"], due)
    assert not firing(tmp_path, fault, "eks", rules["XidReplace"] | {"expr": "vector(0) > 1"}, due)
