"""Queries of panels and alarms use only labels that the sources of their metrics have."""

from __future__ import annotations

import re

import pytest

from tests.monitoring.query_labels import unknown_labels
from tests.monitoring.test_alarms import PLATFORMS, platform
from trainway.monitoring.panels import prometheus_panels
from trainway.monitoring.rules import prometheus_alarms
from trainway.spec.facts.catalogue import load_catalogue


@pytest.mark.parametrize("orchestrator", PLATFORMS)
def test_the_labels_of_every_query_are_those_of_its_metrics(orchestrator: str) -> None:
    found, catalogue = platform(orchestrator), load_catalogue()
    unknown = {}
    for panel, query in prometheus_panels(found, catalogue):
        unknown[panel.title] = list(unknown_labels(query, orchestrator, re.findall(r"{{(\w+)}}", panel.legend)))
    for alarm in prometheus_alarms(found, catalogue):
        (condition,) = alarm.conditions
        told = re.findall(r"\$labels\.(\w+)", alarm.summary)
        unknown[alarm.name] = list(unknown_labels(condition.promql, orchestrator, told))
    assert {name: labels for name, labels in unknown.items() if labels} == {}


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ('slurm_node_status{state="idle"}', ["slurm_node_status: state"]),
        ("sum by (team) (slurm_jobs_running)", ["team"]),
        ("up and on (nodename) up", ["nodename"]),
        ('label_replace(up, "node", "$1", "target", "(.*)")', ["target"]),
        ('sum by (node) (label_replace(up{job="x"}, "node", "$1", "instance", "(.*)"))', []),
        ('DCGM_FI_DEV_GPU_UTIL{pod=""}', ["DCGM_FI_DEV_GPU_UTIL: pod"]),
    ],
)
def test_a_label_that_no_metric_of_a_query_has_is_found(expression: str, unknown: list[str]) -> None:
    assert list(unknown_labels(expression, "hyperpod-slurm")) == unknown


def test_a_label_of_a_legend_that_the_query_does_not_have_is_found() -> None:
    assert list(unknown_labels("up", "eks", ["instance", "team"])) == ["team"]
    assert list(unknown_labels('DCGM_FI_DEV_GPU_UTIL{pod!=""}', "eks", ["pod"])) == []
