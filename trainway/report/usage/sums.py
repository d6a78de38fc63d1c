"""The sums of a team in a month. Runs are added one by one, and none is kept but the largest."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from trainway.launch.registry.record import UnreadableRecord
from trainway.launch.registry.store import RecordedRun
from trainway.report.usage.causes import FailureCause, cause_of
from trainway.report.usage.month import Month
from trainway.report.usage.spans import AttemptSpan, PauseSpan, Spans, spans_of
from trainway.spec.facts.catalogue import Catalogue

HOUR = 3600.0
MOST_LARGEST = 20
# Causes without a rule are texts of jobs.
MOST_CAUSES = 50
MOST_NAMED = 100
OTHER = FailureCause(None, "other causes that no rule knows")


@dataclass(frozen=True)
class PricedNodes:
    """The nodes of a run, and their price at its launch. `gpus` is that of a node, and None if it is unknown."""

    count: int
    instance_type: str
    gpus: int | None
    bought: str | None = None
    region: str | None = None
    usd_per_hour: float | None = None
    as_of: str | None = None

    @property
    def price(self) -> tuple[str, str | None, str | None, float | None, str | None]:
        """Return what two nodes of one price have in common."""
        return self.instance_type, self.bought, self.region, self.usd_per_hour, self.as_of


def nodes_of(run: RecordedRun, catalogue: Catalogue) -> PricedNodes | None:
    """Return the nodes of a run, or None if its record does not have them."""
    told = (run.record.launch or {}).get("nodes")
    if told is None:
        return None
    kept = told.get("price") or {}
    price = {name: kept.get(name) for name in ("bought", "region", "usd_per_hour", "as_of")}
    instance = catalogue.get(told["instance_type"].removeprefix("ml."))
    gpus = None if instance is None else instance.accelerator.count if instance.accelerator else 0
    return PricedNodes(told["count"], told["instance_type"], gpus, **price)


@dataclass
class KnownShare:
    """A share of GPU hours, and of how many runs it is known."""

    part: float = 0.0
    whole: float = 0.0
    runs: int = 0

    def add(self, part: float, whole: float) -> None:
        """Add a run. One without time in the month has no share."""
        if whole > 0:
            self.part, self.whole, self.runs = self.part + part, self.whole + whole, self.runs + 1

    def document(self) -> dict[str, Any]:
        """Return the share as a document. It is None if it is known of no run."""
        return {"share": self.part / self.whole if self.whole else None, "gpu_hours": self.part, "runs": self.runs}


@dataclass
class Failure:
    """How many attempts, of how many runs, failed for a cause. The sentence is that of the first of them."""

    cause: FailureCause
    attempts: int = 0
    runs: int = 0


@dataclass
class TeamSums:
    """What a team used in a month until `now`, in seconds since the epoch. None as the team is runs without a team."""

    team: str | None
    month: Month
    now: float
    catalogue: Catalogue
    has_records: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    hours: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    used: KnownShare = field(default_factory=KnownShare)
    goodput: KnownShare = field(default_factory=KnownShare)
    by_price: dict[tuple[Any, ...], float] = field(default_factory=lambda: defaultdict(float))
    failures: dict[str, Failure] = field(default_factory=dict)
    starts_and_ends: list[tuple[float, int]] = field(default_factory=list)
    largest: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def add(self, run: RecordedRun | UnreadableRecord) -> None:
        """Add a run. One that cannot be read is named, and in no other figure."""
        if isinstance(run, UnreadableRecord):
            self.counts["left_out"] += 1
            if len(self.left_out) < MOST_NAMED:
                self.left_out.append({"run": run.run, "why": run.why})
            return
        spans = spans_of(run, self.now)
        launched = self.month.has(datetime.fromisoformat(run.record.started).timestamp())
        self.counts["launched"] += launched
        self.counts["never_started"] += launched and not spans.attempts and not spans.unknown
        self._add_pauses(spans.pauses)
        spent: list[AttemptSpan | PauseSpan] = [*spans.attempts]
        spent += [each for each in spans.pauses if each.kind == "restart"]
        if any(self.month.part(each.begin, each.end) or self.month.has(each.begin) for each in spent):
            self._add_attempts(run, spans)

    def _add_pauses(self, pauses: tuple[PauseSpan, ...]) -> None:
        for each in pauses:
            self.hours[each.kind] += self.month.part(each.begin, each.end) / HOUR

    def _add_attempts(self, run: RecordedRun, spans: Spans) -> None:
        self.counts["runs"] += 1
        self.counts["attempts_without_times"] += spans.unknown
        self.counts["clocks_corrected"] += spans.corrected
        hours = stepping = productive = 0.0
        for each in spans.attempts:
            spent = self.month.part(each.begin, each.end) / HOUR
            self.counts["attempts"] += spent > 0 or self.month.has(each.begin)
            hours += spent
            share = spent * HOUR / each.seconds if each.seconds else 0.0
            stepping += share * (each.stepping or 0.0) / HOUR
            productive += share * (each.productive or 0.0) / HOUR
        for before, after in pairwise(spans.attempts):
            if self.month.has(after.begin):
                self.counts["restarts" if before.ending in ("failed", "lost") else "resumes"] += 1
        self._add_failures(spans)
        restart = sum(self.month.part(each.begin, each.end) / HOUR for each in spans.pauses if each.kind == "restart")
        nodes = nodes_of(run, self.catalogue)
        if nodes is None:
            self.counts["runs_without_nodes"] += 1
            return
        self._add_nodes(nodes, spans, hours)
        gpus = nodes.count * (nodes.gpus or 0)
        if any(each.stepping is not None for each in spans.attempts):
            self.used.add(stepping * gpus, hours * gpus)
            self.goodput.add(productive * gpus, (hours + restart) * gpus)
        row = {"run": run.record.run, "owner": run.record.owner, "nodes": nodes.count}
        row |= {
            "instance_type": nodes.instance_type,
            "node_hours": hours * nodes.count,
            "gpu_hours": None if nodes.gpus is None else hours * gpus,
        }
        keep = heapq.heappush if len(self.largest) < MOST_LARGEST else heapq.heappushpop
        keep(self.largest, (hours * nodes.count, run.record.run, row))

    def _add_nodes(self, nodes: PricedNodes, spans: Spans, hours: float) -> None:
        self.hours["node"] += hours * nodes.count
        if nodes.gpus is None:
            self.hours["node_without_known_gpus"] += hours * nodes.count
        else:
            self.hours["gpu"] += hours * nodes.count * nodes.gpus
        self.by_price[nodes.price] += hours * nodes.count
        begin, end = self.month.begin.timestamp(), self.month.end.timestamp()
        for each in spans.attempts:
            if self.month.part(each.begin, each.end) > 0:
                self.starts_and_ends += [(max(each.begin, begin), nodes.count), (min(each.end, end), -nodes.count)]

    def _add_failures(self, spans: Spans) -> None:
        of_run = set[str]()
        for attempt in spans.attempts:
            cause = cause_of(attempt) if self.month.has(attempt.end) else None
            if cause is None:
                continue
            # The sentence of a rule can name a rank and a host.
            name = cause.rule or cause.sentence
            if name not in self.failures and cause.rule is None and len(self.failures) >= MOST_CAUSES:
                name, cause = OTHER.sentence, OTHER
            failure = self.failures.setdefault(name, Failure(cause))
            failure.attempts += 1
            failure.runs += name not in of_run
            of_run.add(name)

    def most_nodes(self) -> int:
        """Return the largest number of nodes that attempts had at the same time."""
        now = most = 0
        # An attempt that ends frees its nodes for one that begins at the same time.
        for _, change in sorted(self.starts_and_ends):
            now += change
            most = max(most, now)
        return most
