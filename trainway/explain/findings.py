"""Derive causes from evidence: try every rule, and order the findings by their credibility."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

from trainway.explain.attempts import began_at, current_attempt
from trainway.explain.certainty import is_earlier, survived, with_doubt
from trainway.explain.continued import has_ended, without_overcome
from trainway.explain.described import read_descriptions
from trainway.explain.evidence import Evidence, Exit, JobEvent, Log
from trainway.explain.finding import Confidence, Finding
from trainway.explain.first_error import first_error, first_exit, is_of
from trainway.explain.gpu_busy import gpu_busy_matches
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
from trainway.explain.needles import compiled, matches_any, may_match
from trainway.explain.rendezvous import rendezvous_matches
from trainway.explain.rules import FailureRule, Level, load_rules
from trainway.explain.scheduler import scheduler_matches
from trainway.explain.slurm import read_records
from trainway.explain.xid import xid_matches

# Warnings that kubelets write for healthy nodes and pods while these start.
_HOUSEKEEPING = re.compile(r"^InvalidDiskCapacity: .*invalid capacity 0|^Unhealthy: (?:Readiness|Startup) probe")
# Characters of a line among which its level is.
_PREFIX = 100
# Lines that only warn, but for the libraries that report their errors so.
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b\w*Warning: |: W (?:tensorflow|external)/|level=warn|\(ignored\)")
_WARNS = re.compile(
    r"NCCL WARN|NRT:|NET/OFI|CCOM WARN|<warn>|\(scheduler |RuntimeWarning: (?:invalid|overflow)|AWSError"
)
# PyTorch warns of each try to reach the rendezvous.
_TRIES_AGAIN = re.compile(r"\[W[\d :.]*socket\.cpp:\d+\] \[c10d\]")
# An error can quote what a program warned of before.
_IS_ERROR = re.compile(r"\b(?:[Ee]rror|ERROR|FAILED)\b")
_BEGINNING, _END = 3000, 1000
_LONG_LINE = re.compile(rf"^[^\n]{{{_BEGINNING + _END + 10},}}", re.MULTILINE)
_TRACKERS = ("COMET ERROR", "COMET WARNING", "wandb: ERROR", "wandb: WARNING")
_OF_TRACKER = re.compile(
    rf"^[^\n]*(?:{'|'.join(_TRACKERS)})[^\n]*\nTraceback \(most recent[^\n]*\n"
    r"(?:[ \t][^\n]*\n)*?[ \t]+File \"[^\"\n]*/(?:comet_ml|wandb)/[^\n]*\n(?:[ \t]+(?!File )[^\n]*\n)*[^\s][^\n]*",
    re.MULTILINE,
)
# Python ignores what a finalizer raises.
_OF_FINALIZER = re.compile(
    r"^(?P<before>[^\n]*)Traceback \(most recent call last\):\n[^\n]*File [^\n]*, in __del__\n"
    r"(?:(?P=before)[ \t]+[^\n]*\n)*[^\n]*",
    re.MULTILINE,
)
# training/observe/run_state.py and trainway/launch/node/run_state.py print it.
_OWN_WARNING = re.compile(r"^.*the state of the run cannot be written.*$", re.MULTILINE)


def explain(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings, the cause first. Empty if the job succeeded, or if nothing indicates a failure.

    Earlier attempts of the job count only if the current one says nothing.
    """
    if evidence.succeeded:
        return ()
    evidence = read_records(read_descriptions(_without_asides(evidence)))
    dated = [each.time.isoformat() for each in evidence.events if each.time]
    year = year_of((*dated, *(log.text for log in evidence.logs)))
    current = current_attempt(evidence, year)
    findings = _findings(current, year, began_at(evidence, year))
    if not findings and current != evidence:
        findings = _findings(evidence, year, None)
    if not findings and evidence.succeeded is False:
        findings = _findings(evidence, year, None, warned=True)
    if evidence.succeeded is False and all(each.is_hint for each in findings):
        return (_nothing_said(evidence), *findings)
    return findings


def _findings(evidence: Evidence, year: int, began: datetime | None, *, warned: bool = False) -> tuple[Finding, ...]:
    """Return the findings of one attempt. Ignore lines from before the attempt, and errors that it overcame.

    With `warned`, lines that only warn can have the cause as well.
    """
    whole, evidence = evidence, replace(evidence, logs=without_overcome(evidence.logs))
    rules = load_rules()
    matches = [
        *_matches(evidence, [rule for rule in rules if not rule.lasts], year, warned=warned),
        *_matches(replace(evidence, logs=whole.logs), [rule for rule in rules if rule.lasts], year, warned=warned),
        *xid_matches(whole, year),
        *lustre_matches(whole, year),
        *nccl_timeout_matches(evidence, year),
        *rendezvous_matches(evidence, year),
        *gpu_busy_matches(evidence, year),
        *scheduler_matches(evidence, year),
    ]
    timed = [_timed(match, evidence) for match in matches]
    current = [match for match in timed if not (began and match.quote.time and match.quote.time < began)]
    findings = list(_ranked(current, evidence))
    unknown = _unknown(evidence, year)
    if unknown and any(_same_line(each.quote, unknown.quote) for each in findings):
        unknown = None
    if any(each.confidence is Confidence.CERTAIN for each in findings):
        return with_doubt(findings, unknown, evidence)
    if unknown:
        # A rank's own error is closer to the cause than the reactions of other ranks, unless it came later.
        earlier = [each for each in findings if each.name not in _hints() and is_earlier(each.quote, unknown.quote)]
        findings.insert(len(earlier), unknown)
    if not findings and (said := _unknown_event(evidence)):
        findings.append(said)
    return tuple(findings)


def _without_asides(evidence: Evidence) -> Evidence:
    """Return the evidence without errors after which a run as a rule continues. Line numbers stay the same.

    They are the state of the run that cannot be written, tracebacks that the client of an experiment tracker logs,
    whose last frame is its own, and tracebacks of finalizers.
    Very long lines lose their middle, because the time of matching some patterns grows with the square of the length.
    """

    def without(text: str) -> str:
        text = _LONG_LINE.sub(lambda found: f"{found[0][:_BEGINNING]} … {found[0][-_END:]}", _OWN_WARNING.sub("", text))
        if ", in __del__" in text:
            text = _OF_FINALIZER.sub(lambda found: "\n" * found[0].count("\n"), text)
        if not any(word in text for word in _TRACKERS):
            return text
        # A traceback of the program itself ended it.
        return _OF_TRACKER.sub(
            lambda found: found[0] if ", in <module>" in found[0] else "\n" * found[0].count("\n"), text
        )

    return replace(evidence, logs=tuple(replace(log, text=without(log.text)) for log in evidence.logs))


def _matches(evidence: Evidence, rules: Sequence[FailureRule], year: int, *, warned: bool) -> Iterator[Match]:
    for rule in rules:
        if rule.level is Level.CONSEQUENCE:
            continue
        for log in evidence.logs:
            if match := _in_log(rule, log, year, warned=warned):
                yield match
        for event in evidence.events:
            if match := _in_event(rule, event):
                yield match
        for exit_ in evidence.exits:
            if exit_.status in rule.exit:
                yield _match(rule, quote_of_exit(exit_), {})


def _in_log(rule: FailureRule, log: Log, year: int, *, warned: bool) -> Match | None:
    """Return the rule's first match in a log. If several patterns match one line, return the most informative match."""
    firsts = [found for pattern in rule.log if (found := _first(pattern, rule, log.text, warned=warned))]
    if not firsts:
        return None
    line = min(line_around(log.text, _quoted_at(found)) for found in firsts)
    told = [found.groupdict() for found in firsts if line_around(log.text, _quoted_at(found)) == line]
    words = max(told, key=lambda groups: sum(1 for word in groups.values() if word))
    return _match(rule, quote_log_line(log_line_at(log, line[0], year)), words)


def _quoted_at(found: re.Match[str]) -> int:
    """Return the position to quote: that of the group `quote`, for a pattern over several lines, or the match's own."""
    return found.start("quote") if found.re.groupindex.get("quote") else found.start()


def _first(pattern: str, rule: FailureRule, text: str, *, warned: bool) -> re.Match[str] | None:
    if not may_match(pattern, text):
        return None
    for found in compiled(pattern).finditer(text):
        start, end = line_around(text, found.start())
        line = text[start:end]
        if not warned and rule.level is Level.CAUSE and (_only_warns(line) or _tries_again(line, text)):
            continue
        if not any(compiled(each).search(line) for each in rule.unless):
            return found
    return None


def _only_warns(line: str) -> bool:
    found = _WARNING.search(line[:_PREFIX])
    return bool(found and not _IS_ERROR.search(line[: found.start()]) and not _WARNS.search(line))


def _tries_again(line: str, text: str) -> bool:
    return bool(_TRIES_AGAIN.search(line)) and not has_ended(text)


def _in_event(rule: FailureRule, event: JobEvent) -> Match | None:
    if any(compiled(each).search(event.message) for each in rule.unless):
        return None
    for pattern in rule.event:
        if pattern.source != event.source:
            continue
        reason, message = (
            compiled(part).search(text)
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
    matches = _most_precise(matches)
    if failed_first:
        # The launcher stopped the others because of the first.
        matches = [match for match in matches if match.name != "told-to-stop"]
    ordered = sorted(matches, key=lambda match: believed(match, of_first=_is_of_first(match, failed_first)))
    causes = {match.name for match in ordered if match.level is Level.CAUSE} - survived()
    names = list(dict.fromkeys(match.name for match in ordered))
    for name in _specific_first(sorted(names, key=lambda each: bool(causes) and each in survived())):
        same = [match for match in ordered if match.name == name]
        first = same[0]
        others = len({match.quote.speaker for match in same} - {first.quote.speaker})
        sure = Confidence.CERTAIN if first.level is Level.CAUSE else Confidence.LIKELY
        hint = first.level is Level.HINT
        yield Finding(name, sure, first.cause, first.remedy, first.source, first.quote, others, is_hint=hint)


def _most_precise(matches: Sequence[Match]) -> list[Match]:
    """Return the matches. Omit those of rules with a negative precedence where another rule matches the same line.

    A rule that is `instead_of` the other one stays.
    """
    less = {rule.name: rule.instead_of for rule in load_rules()}
    same_line: dict[tuple[str, int | None, str], list[Match]] = {}
    for match in matches:
        same_line.setdefault((match.quote.name, match.quote.line, match.quote.text), []).append(match)
    return [
        match
        for match in matches
        if match.precedence >= 0
        or all(
            other.precedence <= match.precedence or other.name in less.get(match.name, ())
            for other in same_line[match.quote.name, match.quote.line, match.quote.text]
        )
    ]


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


def _same_line(one: Quote, other: Quote) -> bool:
    return (one.name, one.line) == (other.name, other.line)


@cache
def _hints() -> frozenset[str]:
    return frozenset(rule.name for rule in load_rules() if rule.level is Level.HINT)


def _explained(line: str) -> bool:
    """Return whether some rule matches a line."""
    return matches_any(_every_pattern(), line)


@cache
def _every_pattern() -> tuple[str, ...]:
    return tuple(pattern for rule in load_rules() for pattern in rule.log)
