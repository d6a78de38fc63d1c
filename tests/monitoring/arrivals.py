"""Which metrics of panels and alarms, and which of their labels, a Prometheus lacks."""

from __future__ import annotations

import time

from tests.monitoring.used_metrics import used
from tests.prometheus import Prometheus
from trainway.spec.facts.metrics import emitters_of_metric


def missing(store: Prometheus, orchestrator: str, seconds: float = 300) -> set[str]:
    """Return the Prometheus metrics of an orchestrator's panels and alarms that do not arrive within `seconds`."""
    expected = {each for each in used(orchestrator) if emitters_of_metric(each)[0].store == "prometheus"}
    found: set[str] = set()
    deadline = time.monotonic() + seconds
    while expected - found and time.monotonic() < deadline:
        time.sleep(0.5)
        found = {labels["__name__"] for labels, _ in store.query('{__name__=~".+"}')}
    return expected - found


def missing_labels(store: Prometheus, orchestrator: str) -> set[tuple[str, str]]:
    """Return the labels of metrics.yaml that no arrived series of their metric has, with the metric."""
    lacking: set[tuple[str, str]] = set()
    for metric in used(orchestrator):
        (emitter,) = emitters_of_metric(metric)
        if emitter.store == "prometheus":
            # A scrape that fails ends a series until the next one.
            series = store.answer(f"last_over_time({metric}[5m])")
            there = {label for labels, _ in series for label in labels}
            lacking |= {(metric, label) for label in emitter.labels_of(metric, orchestrator) - there}
    return lacking
