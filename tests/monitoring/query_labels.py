"""The labels in expressions of PromQL, of the form that trainway.monitoring writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainway.monitoring.promql import metrics_in
from trainway.spec.facts.metrics import emitters_of_metric

SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\{([^{}]*)\}")
LISTS = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)")
REPLACED = re.compile(r'"(\w+)", "[^"]*", "(\w*)", "[^"]*"\)')


def unknown_labels(expression: str, orchestrator: str, shown: Iterable[str] = ()) -> Iterator[str]:
    """Yield the labels of an expression that its metrics do not have under an orchestrator.

    `shown` are labels that a legend or a message names.
    """
    known = {
        metric: emitter.labels_of(metric, orchestrator)
        for metric in metrics_in(expression)
        for emitter in emitters_of_metric(metric)
    }
    for metric, selected in SELECTOR.findall(expression):
        labels = re.findall(r"(\w+)\s*[=!]", selected)
        yield from (f"{metric}: {label}" for label in labels if label not in known[metric])
    replaced = REPLACED.findall(expression)
    there = {label for labels in known.values() for label in labels} | {made for made, _ in replaced}
    named = {label for inside in LISTS.findall(expression) for label in re.findall(r"\w+", inside)}
    named |= {source for _, source in replaced if source} | set(shown)
    yield from sorted(named - there)
