"""Derive causes from evidence: try every rule, and order the findings by their credibility."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache

from trainway.explain.attempts import began_at, current_attempt
from trainway.explain.continued import without_overcome
from trainway.explain.described import read_descriptions
from trainway.explain.evidence import Evidence, Exit, JobEvent, Log
from trainway.explain.first_error import first_error, first_exit, is_of
from trainway.explain.log_line_at import line_around, log_line_at, year_of
from trainway.explain.lustre import lustre_matches
from trainway.explain.matches import (
    Match,
    Quote,
    believed,
    fill,
    quote_log_line,
    quote_of_event,
    quote_of_exit,
)
from trainway.explain.nccl_timeout import nccl_timeout_matches
from trainway.explain.needles import may_match
from trainway.explain.rendezvous import rendezvous_matches
from trainway.explain.rules import FailureRule, Level, load_rules
from trainway.explain.xid import xid_matches

# training/observe/run_state.py and trainway/launch/node/run_state.py print it.
# Warnings that kubelets write for healthy nodes and pods while these start.
_HOUSEKEEPING = re.compile(r"^InvalidDiskCapacity: invalid capacity 0|^Unhealthy: (?:Readiness|Startup) probe")
_OWN_WARNING = re.compile(r"^.*the state of the run cannot be written.*$", re.MULTILINE)


class Confidence(StrEnum):
    """The credibility of a finding."""

    CERTAIN = "certain"
    """The evidence itself states the cause."""
    LIKELY = "likely"
    """The evidence states what happened. The cause may be elsewhere."""
    UNKNOWN = "unknown"
    """No rule matches. The finding is the first error of the first rank that failed."""


@dataclass(frozen=True)
class Finding:
    """The cause of a failure as one rule knows it: the cause and the remedy in words, the quote, and the rule's source.

    `others` counts the other processes whose output matches the same rule.
    """

    name: str
    confidence: Confidence
    cause: str
    remedy: str
    source: str
    quote: Quote
    others: int = 0


def explain(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings, the cause first. Empty if the job succeeded, or if nothing indicates a failure.

    Earlier attempts of the job count only if the current one says nothing.
    """
    if evidence.succeeded:
        return ()
    evidence = read_descriptions(_without_own_warnings(evidence))
    dated = [each.time.isoformat() for each in evidence.events if each.time]
    year = year_of((*dated, *(log.text for log in evidence.logs)))
    current = current_attempt(evidence, year)
    findings = _findings(current, year, began_at(evidence, year))
    if not findings and current != evidence:
        findings = _findings(evidence, year, None)
    return findings or ((_nothing_said(evidence),) if evidence.succeeded is False else ())


def _findings(evidence: Evidence, year: int, began: datetime | None) -> tuple[Finding, ...]:
    """Return the findings of one attempt. Ignore lines from before the attempt, and errors that it overcame."""
    whole, evidence = evidence, replace(evidence, logs=without_overcome(evidence.logs))
    matches = [
        *_matches(evidence, [rule for rule in load_rules() if not rule.lasts], year),
        *_matches(replace(evidence, logs=whole.logs), [rule for rule in load_rules() if rule.lasts], year),
        *xid_matches(whole, year),
        *lustre_matches(whole, year),
        *nccl_timeout_matches(evidence, year),
        *rendezvous_matches(evidence, year),
    ]
    timed = [_timed(match, evidence) for match in matches]
    current = [match for match in timed if not (began and match.quote.time and match.quote.time < began)]
    findings = list(_ranked(current, evidence))
    if any(each.confidence is Confidence.CERTAIN for each in findings):
        return tuple(findings)
    if unknown := _unknown(evidence, year):
        # A rank's own error is closer to the cause than the reactions of other ranks, unless it came later.
        earlier = [each for each in findings if each.name not in _hints() and _earlier(each.quote, unknown.quote)]
        findings.insert(len(earlier), unknown)
    if not findings and (said := _unknown_event(evidence)):
        findings.append(said)
    return tuple(findings)


def _without_own_warnings(evidence: Evidence) -> Evidence:
    """Return the evidence without the line that says that the state of the run cannot be written.

    The run continues without its state, so that the reason in the line is not why the run failed.
    """
    return replace(evidence, logs=tuple(replace(log, text=_OWN_WARNING.sub("", log.text)) for log in evidence.logs))


def _matches(evidence: Evidence, rules: Sequence[FailureRule], year: int) -> Iterator[Match]:
    for rule in rules:
        if rule.level is Level.CONSEQUENCE:
            continue
        for log in evidence.logs:
            if match := _in_log(rule, log, year):
                yield match
        for event in evidence.events:
            if match := _in_event(rule, event):
                yield match
        for exit_ in evidence.exits:
            if exit_.status in rule.exit:
                yield _match(rule, quote_of_exit(exit_), {})


def _in_log(rule: FailureRule, log: Log, year: int) -> Match | None:
    """Return the rule's first match in a log. If several patterns match one line, return the most informative match."""
    firsts = [found for pattern in rule.log if (found := _first(pattern, rule, log.text))]
    if not firsts:
        return None
    line = min(line_around(log.text, found.start()) for found in firsts)
    told = [found.groupdict() for found in firsts if line_around(log.text, found.start()) == line]
    words = max(told, key=lambda groups: sum(1 for word in groups.values() if word))
    return _match(rule, quote_log_line(log_line_at(log, line[0], year)), words)


def _first(pattern: str, rule: FailureRule, text: str) -> re.Match[str] | None:
    if not may_match(pattern, text):
        return None
    for found in _compiled(pattern).finditer(text):
        start, end = line_around(text, found.start())
        if not any(_compiled(each).search(text[start:end]) for each in rule.unless):
            return found
    return None


def _in_event(rule: FailureRule, event: JobEvent) -> Match | None:
    if any(_compiled(each).search(event.message) for each in rule.unless):
        return None
    for pattern in rule.event:
        if pattern.source != event.source:
            continue
        reason, message = (
            _compiled(part).search(text)
            for part, text in ((pattern.reason, event.reason), (pattern.message, event.message))
        )
        if reason and message:
            about = event.subject or event.node or "the job"
            words = {**reason.groupdict(), **message.groupdict(), "who": about, "subject": about}
            return _match(rule, quote_of_event(event), {**words, "message": event.message})
    return None


def _match(rule: FailureRule, quote: Quote, words: dict[str, str | None]) -> Match:
    words = {
        "who": quote.who,
        "rank": None if quote.rank is None else str(quote.rank),
        "node": quote.node or words.get("subject") or "of the job",
        "subject": quote.who,
        **words,
    }
    cause, remedy = (fill(sentence, words) for sentence in (rule.cause, rule.remedy))
    return Match(rule.name, rule.level, cause, remedy, rule.source, quote, rule.precedence)


def _timed(match: Match, evidence: Evidence) -> Match:
    """Return the match with the end time of its process, from torchrun, if its line has no time."""
    quote = match.quote
    if quote.time is not None:
        return match
    for exit_ in evidence.exits:
        same = exit_.rank == quote.rank if quote.rank is not None else exit_.local_rank == quote.local_rank
        nodes = {exit_.node, quote.node} - {None}
        if exit_.time and same and len(nodes) < 2 and (quote.rank is not None or quote.local_rank is not None):
            return replace(match, quote=replace(quote, time=exit_.time))
    return match


def _ranked(matches: Sequence[Match], evidence: Evidence) -> Iterator[Finding]:
    """Yield one finding per rule, with its most credible match."""
    failed_first = _failed_first(evidence.exits)
    if failed_first:
        # The launcher stopped the others because of the first.
        matches = [match for match in matches if match.name != "told-to-stop"]
    ordered = sorted(matches, key=lambda match: believed(match, of_first=_is_of_first(match, failed_first)))
    for name in _specific_first(dict.fromkeys(match.name for match in ordered)):
        same = [match for match in ordered if match.name == name]
        first = same[0]
        others = len({match.quote.speaker for match in same} - {first.quote.speaker})
        sure = Confidence.CERTAIN if first.level is Level.CAUSE else Confidence.LIKELY
        yield Finding(name, sure, first.cause, first.remedy, first.source, first.quote, others)


def _specific_first(names: Iterable[str]) -> list[str]:
    """Return the names of rules in their order, with each specific rule before those that it is `instead_of`."""
    ordered = list(names)
    for rule in load_rules():
        if rule.name not in ordered:
            continue
        less = [name for name in ordered[: ordered.index(rule.name)] if name in rule.instead_of]
        rest = [name for name in ordered if name not in less]
        position = rest.index(rule.name) + 1
        ordered = [*rest[:position], *less, *rest[position:]]
    return ordered


def _failed_first(exits: Sequence[Exit]) -> Exit | None:
    """Return the process that the launcher reports to have failed before the others, if it was not told to stop."""
    told = tuple(each for each in exits if each.first)
    return first_exit(told)


def _is_of_first(match: Match, first: Exit | None) -> bool:
    """Return whether a match is of the process that failed first. One that is of no process may be."""
    quote = match.quote
    nobody = quote.rank is None and quote.local_rank is None
    return first is None or nobody or is_of(quote.rank, quote.local_rank, quote.node, first)


def _unknown(evidence: Evidence, year: int) -> Finding | None:
    log_line = first_error(evidence, _explained, year)
    if log_line is None:
        return None
    quote = quote_log_line(log_line)
    return Finding(
        name="unknown",
        confidence=Confidence.UNKNOWN,
        cause=f"the first error of the first that failed, {quote.who}: {quote.text}",
        remedy=f"read {quote.name} from line {quote.line} upwards",
        source="",
        quote=quote,
    )


def _unknown_event(evidence: Evidence) -> Finding | None:
    """Return a finding that quotes the last warning of an orchestrator, or None."""
    told = [
        each
        for each in evidence.events
        if each.reason and not each.is_normal and not _HOUSEKEEPING.search(quote_of_event(each).text)
    ]
    if not told:
        return None
    event = max(told, key=lambda each: each.time.timestamp() if each.time else math.inf)
    quote = quote_of_event(event)
    return Finding(
        name="unknown",
        confidence=Confidence.UNKNOWN,
        cause=f"no rule knows what {event.source} says of {event.subject or event.node or 'the job'}: {quote.text}",
        remedy=f"look at what {event.subject or 'the job'} did before; the message is {event.source}'s own",
        source="",
        quote=quote,
    )


def _nothing_said(evidence: Evidence) -> Finding:
    exit_ = first_exit(evidence.exits)
    quote = quote_of_exit(exit_) if exit_ else Quote("evidence", "no log, event or exit status says why")
    return Finding(
        name="unknown",
        confidence=Confidence.UNKNOWN,
        cause=f"the job failed for no known reason: {quote.text}" if exit_ else "the job failed for no known reason",
        remedy="look at the scheduler's own logs, and at the nodes'",
        source="",
        quote=quote,
    )


def _earlier(one: Quote, other: Quote) -> bool:
    if one.name == other.name and one.line and other.line:
        return one.line < other.line
    return one.time is not None and other.time is not None and one.time < other.time


@cache
def _hints() -> frozenset[str]:
    return frozenset(rule.name for rule in load_rules() if rule.level is Level.HINT)


def _explained(line: str) -> bool:
    """Return whether some rule matches a line."""
    return bool(_any_rule().search(line))


@cache
def _any_rule() -> re.Pattern[str]:
    patterns = [_anonymous(pattern) for rule in load_rules() for pattern in rule.log]
    return re.compile("|".join(f"(?:{each})" for each in patterns))


def _anonymous(pattern: str) -> str:
    """Return a pattern without group names and flags. Names must be unique in a pattern, and flags at its start."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern).replace("(?s)", "").replace("(?i)", "")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)
