"""Find a reason that excludes all nodes by itself, in the sentence of Kubernetes' scheduler about a pending pod.

The sentence counts the nodes for each reason, and a node can have several reasons.
https://github.com/kubernetes/kubernetes/blob/master/pkg/scheduler/framework/types.go (read 2026-11-30)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainway.explain.evidence import Evidence
from trainway.explain.log_line_at import log_line_at
from trainway.explain.matches import Match, Quote, quote_log_line, quote_of_event
from trainway.explain.rules import load_rules

_SENTENCE = re.compile(r"\d+/(?P<all>\d+) nodes are available: (?P<reasons>[^\n]{0,1000})")
_NO_LABEL = re.compile(r"(?P<count>\d+) node\(s\) didn't match (?:Pod's )?node (?:affinity|selector)")


def scheduler_matches(evidence: Evidence, year: int) -> Iterator[Match]:
    """Yield a match for each sentence according to which no node has the labels that the pod asks for."""
    for event in evidence.events:
        if event.reason == "FailedScheduling" and _no_node_matches(_SENTENCE.search(event.message)):
            yield _match(quote_of_event(event), event.subject or "the job")
    for log in evidence.logs:
        for found in _SENTENCE.finditer(log.text):
            if _no_node_matches(found):
                quote = quote_log_line(log_line_at(log, found.start(), year))
                yield _match(quote, quote.who)


def _no_node_matches(sentence: re.Match[str] | None) -> bool:
    found = _NO_LABEL.search(sentence["reasons"]) if sentence else None
    return bool(sentence and found) and found["count"] == sentence["all"]  # type: ignore[index]


def _match(quote: Quote, subject: str) -> Match:
    rule = next(rule for rule in load_rules() if rule.name == "no-node-matches")
    cause = rule.cause.format(subject=subject)
    return Match(rule.name, rule.level, cause, rule.remedy, rule.source, quote, precedence=1)
