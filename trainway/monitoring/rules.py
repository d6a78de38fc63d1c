"""A platform's alarms by the store of their metrics, and the rule file of Prometheus."""

from __future__ import annotations

from typing import Any

from trainway.monitoring.alarm import Alarm
from trainway.monitoring.alarms import alarms
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics import emitters_of_metric
from trainway.spec.platform import Platform

GROUP = "trainway"
# As often as metrics are scraped. Without it, Amazon Managed Service for Prometheus evaluates rules every minute.
# https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-ruler-rulesfile.html (read 2026-12-01)
EVALUATION_SECONDS = 30


def prometheus_alarms(platform: Platform, catalogue: Catalogue) -> tuple[Alarm, ...]:
    """Return the alarms of a platform whose metrics Prometheus has."""
    return tuple(each for each in alarms(platform, catalogue) if store_of(each) == "prometheus")


def cloudwatch_alarms(platform: Platform, catalogue: Catalogue) -> tuple[Alarm, ...]:
    """Return the alarms of a platform whose metrics CloudWatch has."""
    return tuple(each for each in alarms(platform, catalogue) if store_of(each) == "cloudwatch")


def log_alarms(platform: Platform, catalogue: Catalogue) -> tuple[Alarm, ...]:
    """Return the alarms of a platform on lines of logs."""
    return tuple(each for each in alarms(platform, catalogue) if store_of(each) == "logs")


def store_of(alarm: Alarm) -> str:
    """Return the store that has the metrics of an alarm's condition."""
    (store,) = {
        emitter.store
        for condition in alarm.conditions
        for each in condition.metrics
        for emitter in emitters_of_metric(each)
    }
    return store


def rule_document(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the content of a rule file, in the form of Prometheus.

    https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/ (read 2026-11-25)
    """
    rules = [_rule(each) for each in prometheus_alarms(platform, catalogue)]
    return {"groups": [{"name": GROUP, "interval": f"{EVALUATION_SECONDS}s", "rules": rules}]}


def _rule(alarm: Alarm) -> dict[str, Any]:
    (condition,) = alarm.conditions
    return {
        "alert": alarm.name,
        "expr": condition.promql,
        "for": f"{alarm.minutes}m",
        "labels": {"severity": alarm.severity},
        "annotations": {"summary": alarm.summary, "runbook": alarm.runbook},
    }
