"""Each alarm of Prometheus fires in promtool, is silent in its twin, and refers to metrics that the platform has."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.data_files import read_yaml
from tests.prometheus import program
from tests.synthesis import EXAMPLES, ROOT
from trainway.monitoring.alarm import Alarm
from trainway.monitoring.alarms import alarms, every_alarm
from trainway.monitoring.promql import metrics_in
from trainway.monitoring.rules import prometheus_alarms, rule_document, store_of
from trainway.spec.derived.collection import collection_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.metrics import emitters_of_metric, load_emitters
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

CASES: dict[str, Any] = read_yaml(Path(__file__).with_name("alarm_cases.yaml"))
# With all that each orchestrator can collect.
PLATFORMS = {"eks": "eks-p5", "hyperpod-eks": "hyperpod-eks-p5", "hyperpod-slurm": "hyperpod-slurm-p5en"}


@cache
def platform(orchestrator: str) -> Platform:
    found = load_platform(ROOT / "examples" / f"{PLATFORMS[orchestrator]}.yaml")
    settings = {"eks": ("kubernetes", found.kubernetes), "hyperpod-eks": ("hyperpod", found.hyperpod_or_default)}
    if orchestrator not in settings:
        return found
    section, values = settings[orchestrator]
    assert values
    return found.model_copy(update={section: values.model_copy(update={"observability": True})})


def everything() -> dict[str, Alarm]:
    return {each.name: each for under in PLATFORMS for each in every_alarm(platform(under))}


def test_every_alarm_of_prometheus_has_a_case_under_each_orchestrator_whose_condition_is_another() -> None:
    of_prometheus = {each.name for under in PLATFORMS for each in prometheus_alarms(platform(under), load_catalogue())}
    assert CASES.keys() == of_prometheus
    for name, cases in CASES.items():
        found = [each for under in PLATFORMS for each in prometheus_alarms(platform(under), load_catalogue())]
        tried = {
            each.conditions[0].promql
            for case in cases
            for each in prometheus_alarms(platform(case["under"]), load_catalogue())
            if each.name == name
        }
        assert tried == {each.conditions[0].promql for each in found if each.name == name}, name


def twins(name: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the two tests of a case in promtool's form."""
    minute = case.get("at", 60)
    alarm = next(each for each in alarms(platform(case["under"]), load_catalogue()) if each.name == name)
    expected = {
        "exp_labels": case["labels"] | {"severity": alarm.severity},
        "exp_annotations": {"summary": case["summary"], "runbook": alarm.runbook},
    }
    return [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in case[kind].items()],
            "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": alerts}],
        }
        for kind, alerts in (("fires", [expected]), ("silent", []))
    ]


def promtool(directory: Path, rules: dict[str, Any], tests: list[dict[str, Any]]) -> str:
    """Return what promtool says of tests of a rule file; nothing if they pass."""
    (directory / "rules.yaml").write_text(yaml.safe_dump(rules))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (directory / "tests.yaml").write_text(yaml.safe_dump(document))
    command = [program("promtool"), "test", "rules", str(directory / "tests.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("under", PLATFORMS)
def test_each_alarm_fires_and_is_silent_in_its_twin(under: str, tmp_path: Path) -> None:
    tests = [
        test for name, cases in CASES.items() for case in cases if case["under"] == under for test in twins(name, case)
    ]
    assert promtool(tmp_path, rule_document(platform(under), load_catalogue()), tests) == ""


def test_promtool_finds_an_alarm_that_never_fires_and_one_that_always_does(tmp_path: Path) -> None:
    tests = twins("XidReplace", CASES["XidReplace"][0])
    for expression in ("vector(0) > 1", "DCGM_FI_DEV_XID_ERRORS >= 0"):
        rules = rule_document(platform("hyperpod-slurm"), load_catalogue())
        (rule,) = [each for each in rules["groups"][0]["rules"] if each["alert"] == "XidReplace"]
        rule["expr"] = expression
        assert "FAILED" in promtool(tmp_path, rules, tests)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda each: each.stem)
def test_an_alarm_refers_to_metrics_that_the_platform_has(file: Path, tmp_path: Path) -> None:
    found, catalogue = load_platform(file), load_catalogue()
    for alarm in alarms(found, catalogue):
        (condition,) = alarm.conditions
        assert condition.metrics, alarm.name
        assert collection_of(found, catalogue).has(*condition.metrics), alarm.name
        assert store_of(alarm) in ("cloudwatch", "prometheus")
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(rule_document(found, catalogue)))
    done = subprocess.run([program("promtool"), "check", "rules", rules], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_platform_has_every_alarm_of_whose_metrics_it_has_all() -> None:
    """An alarm that a platform lacks lacks a metric, so no alarm is lost by a name that nothing emits."""
    for name, alarm in everything().items():
        for condition in alarm.conditions:
            assert all(emitters_of_metric(each) for each in condition.metrics), name
        found = {each.name for under in PLATFORMS for each in alarms(platform(under), load_catalogue())}
        assert name in found or name == "CapacityScheduleFailed", name


def test_the_metrics_of_an_expression_are_found() -> None:
    expression = (
        'sum by (host) (label_replace(rate(a_total{device=~"b.*"}[5m] offset 30m), "c", "$1", "d", "(e)")) > 1e3'
    )
    assert metrics_in(expression) == {"a_total"}
    assert metrics_in("x:y / ignoring (a, b) group_left z and on (c) d != d") == {"x:y", "z", "d"}
    assert metrics_in("no_function(a)") == {"no_function", "a"}, "an unknown word is no metric of any emitter"


def test_every_alarm_has_a_section_of_the_runbook_and_every_section_an_alarm() -> None:
    page = (ROOT / "docs/alarms.md").read_text(encoding="utf-8")
    sections = re.split(r"^### ", page, flags=re.MULTILINE)[1:]
    assert {each.partition("\n")[0] for each in sections} == everything().keys()
    assert [each.partition("\n")[0] for each in sections if "**Do:**" not in each] == []


def test_the_metrics_of_the_job_are_those_that_the_job_exports() -> None:
    from training.observe.exporter import FAMILIES

    kinds = {name: metric.kind for name, metric in load_emitters()["run"].metrics.items()}
    assert kinds == {name: kind for name, (kind, _) in FAMILIES.items()}
