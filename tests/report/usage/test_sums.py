"""The figures of a month are those of another computation, and each kind of time counts once."""

from __future__ import annotations

import random
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.report.usage.runs import PRICE, at, attempt, record, recorded, resumed
from trainway.launch.registry.record import UnreadableRecord
from trainway.launch.registry.store import RecordedRun
from trainway.report.usage.causes import LOST
from trainway.report.usage.document import platform_document
from trainway.report.usage.month import month_of
from trainway.report.usage.sums import MOST_CAUSES, OTHER, TeamSums
from trainway.spec.facts.catalogue import load_catalogue

FEBRUARY = month_of("2024-02", datetime(2024, 6, 1, tzinfo=UTC))
LATER = at("2024-06-01")
MINUTE = 60.0


def figures(*runs: RecordedRun | UnreadableRecord, now: float = LATER) -> dict[str, Any]:
    """Return the figures of a team with these runs in February of 2024."""
    sums = TeamSums("research", FEBRUARY, now, load_catalogue())
    for run in runs:
        sums.add(run)
    (found,) = platform_document("atlas", "us-east-1", [sums], [])["teams"]
    return dict(found)


@pytest.mark.parametrize(("text", "days"), [("2024-02", 29), ("2023-02", 28), ("2000-02", 29), ("2023-12", 31)])
def test_a_run_over_whole_months_counts_the_days_of_the_month(text: str, days: int) -> None:
    month = month_of(text, datetime(2024, 6, 1, tzinfo=UTC))
    sums = TeamSums("research", month, LATER, load_catalogue())
    sums.add(recorded(record("long", at("1999-01-01")), attempt(1, at("1999-01-01"), at("2024-05-01"))))
    found = platform_document("atlas", "us-east-1", [sums], [])["teams"][0]
    assert found["node_hours"] == 2 * 24 * days and found["nodes"] == {"mean": 2.0, "most": 2}


def random_run(number: int, chance: random.Random) -> RecordedRun:
    """A run around February, whose attempts begin and end at full minutes and take one step a minute."""
    launched = began = at("2024-01-25") + chance.randrange(40 * 1440) * MINUTE
    attempts, step = [], 0
    for index in range(chance.randint(1, 4)):
        began += chance.randrange(200) * MINUTE
        minutes = chance.randrange(1, 5000)
        first = max(0, step - chance.randrange(100)) + 1
        step = first + minutes - 1
        how = chance.choice(["failed", "stopped", "running"])
        told: dict[str, Any] = {
            "first_step": first,
            "step": step,
            "stepping": minutes * MINUTE,
            "productive": minutes * MINUTE,
        }
        attempts.append(attempt(index + 1, began, began + minutes * MINUTE, how, **told))
        began += minutes * MINUTE
    usd = chance.choice([None, 10.0, 55.04])
    nodes = {"count": chance.randint(1, 9), "price": PRICE | {"usd_per_hour": usd}}
    return recorded(record(f"run-{number}", launched, **nodes), *attempts)


def by_the_minute(runs: list[RecordedRun]) -> dict[str, float]:
    """Count each minute of the month in each run. A step is kept if it was not taken again."""
    found = dict.fromkeys(("node", "most", "usd", "productive", "whole", "restarts"), 0.0)
    minutes: dict[int, int] = {}
    first, last = (int(each.timestamp() / MINUTE) for each in (FEBRUARY.begin, FEBRUARY.end))
    for run in runs:
        assert run.state is not None and run.record.launch is not None
        count, usd = run.record.launch["nodes"]["count"], run.record.launch["nodes"]["price"]["usd_per_hour"]
        attempts = run.state.attempts
        taken: dict[int, int] = {}
        for each in attempts:
            # The run goes back to the step before the first one of the attempt.
            taken = {step: number for step, number in taken.items() if step < (each.first_step or 0)}
            taken |= dict.fromkeys(range(each.first_step or 0, (each.step or 0) + 1), each.attempt)
        for index, each in enumerate(attempts):
            begin, end = int(each.started / MINUTE), int(each.written / MINUTE)
            kept = list(taken.values()).count(each.attempt)
            inside = [minute for minute in range(begin, end) if first <= minute < last]
            for minute in inside:
                minutes[minute] = minutes.get(minute, 0) + count
            found["usd"] += len(inside) * count * (usd or 0) / 60
            found["productive"] += kept * len(inside) / (end - begin) * count * 8 / 60
            found["whole"] += len(inside) * count * 8 / 60
            if index and attempts[index - 1].state != "stopped":
                found["restarts"] += first <= begin < last
                pause = range(int(attempts[index - 1].written / MINUTE), begin)
                found["whole"] += sum(1 for minute in pause if first <= minute < last) * count * 8 / 60
    return found | {"node": sum(minutes.values()) / 60, "most": max(minutes.values())}


@pytest.mark.parametrize("seed", range(5))
def test_the_figures_are_those_of_a_count_of_minutes(seed: int) -> None:
    chance = random.Random(seed)
    runs = [random_run(number, chance) for number in range(60)]
    found, expected = figures(*runs), by_the_minute(runs)
    assert found["node_hours"] == pytest.approx(expected["node"])
    assert found["gpu_hours"] == pytest.approx(8 * expected["node"])
    assert found["nodes"]["most"] == expected["most"]
    assert found["nodes"]["mean"] == pytest.approx(expected["node"] / (29 * 24))
    assert found["cost"]["usd"] == pytest.approx(expected["usd"])
    assert found["goodput"]["share"] == pytest.approx(expected["productive"] / expected["whole"])
    assert found["restarts"] == expected["restarts"]
    assert sum(each["attempts"] for each in found["failures"]) > 0
    assert sum(each["node_hours"] for each in found["cost"]["lines"]) == pytest.approx(found["node_hours"])
    hours = [each["node_hours"] for each in found["largest"]]
    assert len(hours) == 20 and hours == sorted(hours, reverse=True)


def test_each_kind_of_time_counts_once() -> None:
    # Two hours in the queue, one after a failure, and three stopped. The second launch waits for one of four hours.
    launched = at("2024-02-10 00:00")
    run = resumed(record("nightly", launched), at("2024-02-10 11:00"))
    found = figures(
        recorded(
            run,
            attempt(1, at("2024-02-10 02:00"), at("2024-02-10 04:00"), "failed", reason="x"),
            attempt(2, at("2024-02-10 05:00"), at("2024-02-10 08:00"), "stopped"),
            attempt(3, at("2024-02-10 12:00"), at("2024-02-10 13:00")),
        )
    )
    assert found["run_hours"] == {"waiting": 3.0, "restart": 1.0, "stopped": 3.0}
    assert (found["node_hours"], found["attempts"], found["restarts"], found["resumes"]) == (12.0, 3, 1, 1)
    assert (found["runs"], found["launched"], found["never_started"]) == (1, 1, 0)


def test_a_run_that_never_started_has_no_hours() -> None:
    found = figures(recorded(record("waits", at("2024-02-03"))), recorded(record("before", at("2024-01-03"))))
    assert (found["launched"], found["never_started"], found["runs"], found["node_hours"]) == (1, 1, 0, 0)


def test_a_run_that_runs_counts_until_now_and_a_lost_one_until_its_last_word() -> None:
    now, began = at("2024-02-20 12:00"), at("2024-02-20 00:00")
    runs = recorded(record("runs", began), attempt(1, began, now - 60, "running"))
    lost = recorded(record("lost", began), attempt(1, began, at("2024-02-20 03:00"), "running"))
    assert figures(runs, now=now)["node_hours"] == 2 * 12 and figures(runs, now=now)["failures"] == []
    found = figures(lost, now=now)
    assert found["node_hours"] == 2 * 3
    assert found["failures"] == [{"rule": None, "cause": LOST, "attempts": 1, "runs": 1}]
    # The mean is that of the part of the month that is over.
    assert found["nodes"]["mean"] == pytest.approx(6 / (19.5 * 24))


def test_clocks_that_are_wrong_are_told_and_cut() -> None:
    began, ended = at("2024-02-20 00:00"), at("2024-02-20 06:00")
    right = record("run", began)
    assert figures(recorded(right, attempt(1, began, ended)))["clocks_corrected"] == 0
    # The clock of a node is 3 hours ahead of that of S3.
    ahead = figures(recorded(right, attempt(1, began + 10800, ended + 10800), changed=ended))
    assert (ahead["node_hours"], ahead["clocks_corrected"]) == (12.0, 1)
    # A clock is behind: the attempt seems to begin before the launch.
    behind = figures(recorded(right, attempt(1, began - 10800, ended - 10800), changed=ended))
    assert (behind["node_hours"], behind["clocks_corrected"]) == (6.0, 1)
    # The second attempt seems to begin before the end of the first one.
    two = (attempt(1, began, ended, "failed"), attempt(2, began + 3600, ended + 3600))
    assert figures(recorded(right, *two))["node_hours"] == 14.0
    # Nothing of what a job writes makes an attempt longer than the time from its launch to its last write.
    liar = recorded(right, attempt(1, 0.0, 2e11, stepping=1e11, productive=1e11), changed=ended)
    assert figures(liar)["node_hours"] == 12.0 and figures(liar)["used"]["share"] == 1.0
    turned = figures(recorded(right, attempt(1, ended, began), changed=ended))
    assert turned["node_hours"] == 0.0 and turned["clocks_corrected"] == 1


def test_what_is_unknown_is_in_no_sum_and_counted() -> None:
    began, ended = at("2024-02-20 00:00"), at("2024-02-20 10:00")
    steps: dict[str, Any] = {"first_step": 1, "step": 10, "stepping": 18000.0, "productive": 9000.0}
    known = recorded(record("known", began), attempt(1, began, ended, **steps))
    silent = recorded(record("silent", began), attempt(1, began, ended))
    no_step = recorded(record("no-step", began), attempt(1, began, ended, "failed", stepping=0.0, productive=0.0))
    both = figures(known, silent)
    assert both["used"] == {"share": 0.5, "gpu_hours": 80.0, "runs": 1} and both["goodput"]["share"] == 0.25
    assert figures(silent)["used"] == figures(silent)["goodput"] == {"share": None, "gpu_hours": 0.0, "runs": 0}
    assert figures(known, no_step)["used"]["share"] == 0.25

    priceless = recorded(record("run", began, price=PRICE | {"usd_per_hour": None}), attempt(1, began, ended))
    cost = figures(known, priceless)["cost"]
    assert cost["usd"] == pytest.approx(20 * 55.04) and cost["node_hours_without_price"] == 20
    assert [(each["usd"], each["bought"], each["as_of"]) for each in cost["lines"]] == [
        (pytest.approx(20 * 55.04), "on demand", "2026-11-20"),
        (None, "on demand", "2026-11-20"),
    ]
    strange = figures(known, recorded(record("run", began, instance_type="p99.metal"), attempt(1, began, ended)))
    assert (strange["gpu_hours"], strange["node_hours"], strange["node_hours_without_known_gpus"]) == (160, 40, 20)
    processors = figures(recorded(record("run", began, instance_type="m7i.2xlarge"), attempt(1, began, ended)))
    assert (processors["gpu_hours"], processors["node_hours_without_known_gpus"]) == (0, 0)

    without = record("run", began)
    assert without.launch is not None
    del without.launch["nodes"]
    nodeless = figures(recorded(without, attempt(1, began, ended)))
    assert (nodeless["runs"], nodeless["runs_without_nodes"], nodeless["node_hours"]) == (1, 1, 0)
    # The state keeps 100 earlier attempts.
    assert figures(recorded(record("run", began), attempt(7, began, ended)))["attempts_without_times"] == 6


def test_attempts_that_fail_in_one_way_are_one_cause_of_a_run() -> None:
    began, reason = at("2024-02-20"), "OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB"
    failed = [attempt(each, began, began + 60, "failed", reason=reason.format(each)) for each in (1, 2)]
    (found,) = figures(recorded(record("run", began), *failed))["failures"]
    assert (found["rule"], found["attempts"], found["runs"]) == ("gpu-memory", 2, 1)


def test_failures_that_no_rule_knows_are_one_cause_by_their_words_and_few() -> None:
    began = at("2024-02-20")

    def failed(number: int, reason: str) -> RecordedRun:
        return recorded(record(f"r{number}", began), attempt(1, began, began + 60, "failed", reason=reason))

    same = figures(*(failed(number, f"job {1000 + number} broke (x ended with exit status 1)") for number in range(3)))
    assert [(each["cause"], each["runs"]) for each in same["failures"]] == [("job # broke", 3)]
    words = ["".join(random.Random(number).choices("abcdefgh", k=12)) for number in range(2 * MOST_CAUSES)]
    many = figures(*(failed(number, word) for number, word in enumerate(words)))["failures"]
    assert len(many) == MOST_CAUSES + 1
    assert (many[0]["cause"], many[0]["attempts"]) == (OTHER.sentence, MOST_CAUSES)


def test_a_month_of_ten_thousand_runs_takes_little_memory() -> None:
    sums = TeamSums("research", FEBRUARY, LATER, load_catalogue())
    began = at("2024-02-02")
    sums.add(recorded(record("first", began), attempt(1, began, began + 60)))
    tracemalloc.start()
    for number in range(10_000):
        begin = began + 200 * number
        sums.add(
            recorded(record(f"run-{number}", begin), attempt(1, begin, begin + 900, "failed", reason="out of luck"))
        )
        sums.add(UnreadableRecord(f"runs/research/.registry/broken-{number}.json", "it is not JSON"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 16 * 2**20
    assert sums.counts["left_out"] == 10_000 and len(sums.left_out) == 100
