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
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.metrics import emitters_of_metric, load_emitters
from trainway.spec.loader import load_platform
from trainway.spec.observability.collection import collection_of
from trainway.spec.platform import Platform

# A file for each alarm of Prometheus, with series at which it fires, and those of a twin at which it stays silent.
# Values are those of promtool: one a minute, `60x90` is 60 for 91 minutes, and `0+60x90` grows by 60. Zeros are
# `0+0x90`, because promtool takes `0x90` for a hexadecimal number. `at` is the minute that is looked at. Default: 60.
# https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/ (read 2026-11-25)
CASES: dict[str, Any] = {
    file.stem: read_yaml(file) for file in sorted(Path(__file__).with_name("alarm_cases").glob("*.yaml"))
}
# With all that each orchestrator can collect.
PLATFORMS = {"eks": "eks-p5", "hyperpod-eks": "hyperpod-eks-p5", "hyperpod-slurm": "hyperpod-slurm-p5en"}


@cache
def platform(orchestrator: str) -> Platform:
    found = load_platform(ROOT / "examples" / f"{PLATFORMS[orchestrator]}.yaml")
    linked = found.storage.of_jobs.model_copy(update={"mirror": True, "team_directories": False})
    found = found.model_copy(update={"storage": found.storage.model_copy(update={"lustre": linked})})
    section, values = {
        "eks": ("kubernetes", found.kubernetes),
        "hyperpod-eks": ("hyperpod", found.hyperpod_or_default),
        "hyperpod-slurm": ("slurm", found.slurm_or_default),
    }[orchestrator]
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


def rules_of(under: str, name: str) -> dict[str, Any]:
    """Return the rules of a platform without those of its other alarms, which promtool would evaluate in each test."""
    document = rule_document(platform(under), load_catalogue())
    groups = [
        {**group, "rules": [each for each in group["rules"] if each.get("alert", name) == name]}
        for group in document["groups"]
    ]
    return {**document, "groups": groups}


def promtool(directory: Path, tested: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]) -> str:
    """Return the output of promtool for rule files and their tests, by alarm. The result is empty if all tests pass."""
    files = []
    for name, (rules, tests) in tested.items():
        (directory / f"{name}.rules.yaml").write_text(yaml.safe_dump(rules))
        document = {"rule_files": [f"{name}.rules.yaml"], "evaluation_interval": "1m", "tests": tests}
        files.append(directory / f"{name}.tests.yaml")
        files[-1].write_text(yaml.safe_dump(document))
    command = [program("promtool"), "test", "rules", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("under", PLATFORMS)
def test_each_alarm_fires_and_is_silent_in_its_twin(under: str, tmp_path: Path) -> None:
    tested = {}
    for name, cases in CASES.items():
        if tests := [test for case in cases if case["under"] == under for test in twins(name, case)]:
            tested[name] = (rules_of(under, name), tests)
    assert tested
    assert promtool(tmp_path, tested) == ""


def test_promtool_finds_an_alarm_that_never_fires_and_one_that_always_does(tmp_path: Path) -> None:
    tests = twins("XidReplace", CASES["XidReplace"][0])
    for expression in ("vector(0) > 1", "DCGM_FI_DEV_XID_ERRORS >= 0"):
        rules = rules_of("hyperpod-slurm", "XidReplace")
        (rule,) = rules["groups"][0]["rules"]
        rule["expr"] = expression
        assert "FAILED" in promtool(tmp_path, {"XidReplace": (rules, tests)})


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda each: each.stem)
def test_an_alarm_refers_to_metrics_that_the_platform_has(file: Path, tmp_path: Path) -> None:
    found, catalogue = load_platform(file), load_catalogue()
    for alarm in alarms(found, catalogue):
        (condition,) = alarm.conditions
        assert condition.metrics, alarm.name
        assert collection_of(found, catalogue).has(*condition.metrics), alarm.name
        assert store_of(alarm) in ("cloudwatch", "logs", "prometheus")
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
        assert name in found, name


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
    # No platform here has a schedule.
    assert {each.partition("\n")[0] for each in sections} == everything().keys() | {"CapacityScheduleFailed"}
    assert [each.partition("\n")[0] for each in sections if "**Do:**" not in each] == []


def test_the_metrics_of_the_job_are_those_that_the_job_exports() -> None:
    from training.observe.exporter import FAMILIES

    kinds = {name: metric.kind for name, metric in load_emitters()["run"].metrics.items()}
    assert kinds == {name: kind for name, (kind, _) in FAMILIES.items()}
