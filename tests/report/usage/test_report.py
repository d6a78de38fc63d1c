"""`trainway report --month` over the bucket of the emulated AWS, with records and states that others have written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.report.usage.runs import PRICE, at, attempt, moment, record, state
from trainway.cli import app
from trainway.launch.program.program import STARTER
from trainway.launch.registry.connections import connect, registry_of
from trainway.launch.registry.record import RunRecord, key_of
from trainway.launch.registry.state import state_key_of
from trainway.launch.registry.store import Registry
from trainway.report.usage.gather import usage_of
from trainway.report.usage.month import month_of
from trainway.spec.errors import UsageError
from trainway.spec.handoff_names import parameter_name

HAND_OFF = hand_off_of(platform_named("kueue"))
REGISTRY = registry_of(HAND_OFF)
TEAM, OTHER_TEAM = HAND_OFF.teams[:2]
BEGAN = at("2024-02-29 20:00")
HOSTILE = "<script>alert(1)</script>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running(region=HAND_OFF.region) as started:
        yield started


@pytest.fixture(autouse=True)
def platform(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A deployed platform that this person has connected to."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    where: Any = {"LocationConstraint": HAND_OFF.region}
    bucket = boto3.resource("s3", region_name=HAND_OFF.region).create_bucket(
        Bucket=HAND_OFF.bucket, CreateBucketConfiguration=where
    )
    ssm, name = boto3.client("ssm", region_name=HAND_OFF.region), parameter_name(HAND_OFF.platform)
    ssm.put_parameter(Name=name, Value=HAND_OFF.model_dump_json(), Type="String", Tier="Advanced", Overwrite=True)
    connect(HAND_OFF.platform, HAND_OFF.region)
    yield
    bucket.objects.delete()
    bucket.delete()


def put(key: str, text: str) -> None:
    boto3.client("s3", region_name=HAND_OFF.region).put_object(Bucket=HAND_OFF.bucket, Key=key, Body=text.encode())


def add(of: RunRecord, *attempts: dict[str, Any]) -> None:
    REGISTRY.write(of)
    if attempts:
        put(state_key_of(of.team, of.run), state(*attempts))


def report(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["report", *arguments, "--no-open"], catch_exceptions=False)


def figures(month: str = "2024-02", *arguments: str) -> list[dict[str, Any]]:
    done = report("--month", month, "--json", *arguments)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (document["month"], document["time_zone"]) == (month, "UTC")
    (platform,) = document["platforms"]
    assert (platform["platform"], platform["region"]) == (HAND_OFF.platform, HAND_OFF.region)
    return list(platform["teams"])


class Page(HTMLParser):
    """The elements of a page and its text."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def test_a_month_without_runs_has_each_team_and_no_hours() -> None:
    found = figures()
    assert [each["team"] for each in found] == list(HAND_OFF.teams)
    assert {(each["runs"], each["node_hours"], each["cost"]["usd"]) for each in found} == {(0, 0, 0)}
    assert all(each["used"]["share"] is None and each["failures"] == [] for each in found)


def test_a_run_over_two_months_counts_in_each_with_its_part_and_teams_are_apart() -> None:
    # Four hours until the end of the leap day, and two after it.
    add(record("long", BEGAN, team=TEAM), attempt(1, BEGAN, BEGAN + 6 * 3600))
    add(record("other", BEGAN, team=OTHER_TEAM, count=1), attempt(1, BEGAN, BEGAN + 3600))
    add(record("nobody", BEGAN, team=None, count=1), attempt(1, BEGAN, BEGAN + 7200))
    february = {each["team"]: each["node_hours"] for each in figures()}
    assert (february[TEAM], february[OTHER_TEAM], february[None]) == (8, 1, 2)
    (march,) = figures("2024-03", "--team", TEAM)
    assert (march["node_hours"], march["gpu_hours"], march["launched"]) == (4, 32, 0)
    assert march["cost"]["usd"] == pytest.approx(4 * PRICE["usd_per_hour"])
    assert figures("2024-01", "--team", TEAM)[0]["runs"] == 0


def test_the_page_has_the_figures_and_escapes_what_others_write() -> None:
    told = attempt(1, BEGAN, BEGAN + 3600, "failed", reason=HOSTILE)
    add(replace(record("hostile", BEGAN, team=TEAM, price=PRICE | {"bought": HOSTILE}), owner=HOSTILE), told)
    put(key_of(TEAM, "broken"), '{"schema_version": 1, "run": "<b>"}')
    add(record("lies", BEGAN, team=TEAM))
    put(state_key_of(TEAM, "lies"), state(attempt(1, BEGAN, BEGAN)).replace('"attempt": 1', '"attempt": -1'))
    put(f"runs/{TEAM}/.registry/<img src=x>.json", "[" * 100_000)
    done = report("--month", "2024-02", "--team", TEAM)
    assert done.exit_code == 0
    file = Path(done.stdout.strip())
    assert file == Path(f"runs/usage-2024-02-{TEAM}.html")
    page = Page(file)
    assert not page.tags & {"script", "b", "img"}
    assert page.text.count(HOSTILE) >= 3
    assert "Left out of all figures, because their records cannot be read: 3 runs." in page.text
    assert "$110.08" in page.text and "in UTC" in page.text
    (found,) = figures("2024-02", "--team", TEAM)
    named = {each["run"]: each["why"] for each in found["left_out"]["named"]}
    assert set(named) == {"broken", "lies", "<img src=x>"}
    assert named["lies"].startswith("its state: attempt: ")
    assert (found["runs"], found["node_hours"]) == (1, 2)
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in file.read_text()


def test_each_figure_of_the_document_is_on_the_page() -> None:
    steps = {"first_step": 1, "step": 10, "stepping": 2700.0, "productive": 1800.0}
    add(record("llama", BEGAN - 1800, team=TEAM), attempt(1, BEGAN, BEGAN + 3600, "failed", reason="x", **steps))
    add(record("silent", BEGAN, team=TEAM, count=3), attempt(1, BEGAN, BEGAN + 3600))
    (found,) = figures("2024-02", "--team", TEAM)
    text = " ".join(Page(Path(report("--month", "2024-02").stdout.strip())).text.split())
    cost = f"${5 * PRICE['usd_per_hour']:,.2f}"
    assert f"{TEAM} 2 5.0 40.0 75.0% (1 of 2 runs) 50.0% (1 of 2 runs) 1 {cost}" in text
    assert found["nodes"]["most"] == 5 and found["used"]["share"] == 0.75
    assert f"5 at most, {5 / (29 * 24):.6f} on average" in text
    assert "Attempts 2, of these 0 restarts" in text
    assert "Waited from launch to start 0.5 hours" in text
    assert f"p5.48xlarge in us-east-1 on demand 5.0 ${PRICE['usd_per_hour']} 2026-11-20 {cost}" in text


def test_the_attempts_of_a_real_program_are_counted(tmp_path: Path) -> None:
    of = record("nightly", datetime.now(UTC).timestamp() - 1, team=TEAM)
    REGISTRY.write(of)
    told = {
        "TRAINWAY_RUN": str(tmp_path / "run"),
        "TRAINWAY_OUTPUT": str(tmp_path / "run/outputs"),
        "TRAINWAY_STATE": f"s3://{HAND_OFF.bucket}/{state_key_of(TEAM, of.run)}",
        "AWS_REGION": HAND_OFF.region,
    }
    out_of_memory = "raise type('OutOfMemoryError', (Exception,), {})('CUDA out of memory. Tried to allocate 2.00 GiB')"
    for program in (out_of_memory, "print('done')"):
        command = [sys.executable, str(STARTER), "--", sys.executable, "-c", program]
        subprocess.run(command, env={**os.environ, **told}, check=False, capture_output=True, timeout=300)
    months = {f"{datetime.now(UTC) - timedelta(minutes=minutes):%Y-%m}" for minutes in (0, 10)}
    found = [each for month in sorted(months) for each in figures(month, "--team", TEAM)]
    assert sum(each["attempts"] for each in found) == 2 and sum(each["restarts"] for each in found) == 1
    (failure,) = [each for month in found for each in month["failures"]]
    assert (failure["rule"], failure["attempts"]) == ("gpu-memory", 1)
    hours = sum(each["node_hours"] for each in found)
    assert 0 < hours < 2 * 300 / 3600
    assert sum(each["gpu_hours"] for each in found) == pytest.approx(8 * hours)


def test_the_requests_are_at_most_two_for_each_run_of_the_month() -> None:
    march = at("2024-03-05")
    for number in range(60):
        add(record(f"in-{number}", BEGAN, team=TEAM), attempt(1, BEGAN, BEGAN + 60))
        add(record(f"later-{number}", march, team=TEAM), attempt(1, march, march + 60))
    registry, asked = replace(REGISTRY), list[str]()
    registry._client.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))
    now = datetime.now(UTC)
    usage_of([registry], month_of("2024-02", now), TEAM, now)
    assert (asked.count("ListObjectsV2"), asked.count("GetObject"), len(asked)) == (1, 180, 181)
    asked.clear()
    # Nothing was launched or has written since the month before the next one began.
    following = now + timedelta(days=62)
    usage_of([registry], month_of(f"{following:%Y-%m}", following), TEAM, following)
    assert asked == ["ListObjectsV2"]


def denying(team: str) -> Registry:
    """The registry of a person who may not list the records of a team. The emulated AWS denies nothing."""
    registry = replace(REGISTRY)

    def deny(request: Any, **_: Any) -> AWSResponse | None:
        if f"prefix=runs%2F{team}%2F" not in request.url:
            return None
        body = b"<Error><Code>AccessDenied</Code><Message>denied by a policy</Message></Error>"

        class Raw:
            def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
                yield body

        return AWSResponse(request.url, 403, HTTPHeaders(), Raw())

    registry._client.meta.events.register("before-send.s3.ListObjectsV2", deny)
    return registry


def test_a_team_whose_records_may_not_be_listed_is_named() -> None:
    now = datetime.now(UTC)
    (platform,) = usage_of([denying(OTHER_TEAM)], month_of("2024-02", now), None, now)["platforms"]
    assert OTHER_TEAM not in [each["team"] for each in platform["teams"]]
    (missing,) = platform["teams_not_read"]
    assert missing["team"] == OTHER_TEAM and "denied by a policy" in missing["why"]
    with pytest.raises(UsageError, match="you need s3:ListBucket"):
        usage_of([denying(OTHER_TEAM)], month_of("2024-02", now), OTHER_TEAM, now)


def test_a_team_that_was_removed_is_found_by_its_records() -> None:
    add(record("old", BEGAN, team="removed"), attempt(1, BEGAN, BEGAN + 3600))
    assert figures("2024-02", "--team", "removed")[0]["node_hours"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--month", "2024-02", "--team", "absent"], "has no such team, and no records of one"),
        (["--month", "2024-02", "--team", "../x"], "no team can have this name"),
        (["--month", "February"], "it is not a month"),
        (["--month", "9999-12"], "the month has not begun"),
        (["--team", TEAM], "it belongs to the report of a month"),
        (["run", "--json"], "it belongs to the report of a month"),
        (["run", "--month", "2024-02"], "leave out the run, or --month"),
        ([], "neither a run nor --month is given"),
    ],
)
def test_what_cannot_be_reported_is_a_sentence(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as found:
        report(*arguments)
    assert "fix: " in str(found.value)


def test_without_a_platform_there_is_nothing_to_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="no platform is known here"):
        report("--month", "2024-02")


def test_a_page_that_cannot_be_written_is_a_sentence() -> None:
    Path("runs").write_text("a file")
    with pytest.raises(UsageError, match=r"usage-2024-02\.html cannot be written"):
        report("--month", "2024-02")


def test_a_record_says_when_it_was_launched_in_any_zone() -> None:
    # 23:30 in this zone is March in UTC.
    of = replace(record("zone", BEGAN, team=TEAM), started="2024-02-29T23:30:00-01:00")
    add(of, attempt(1, at("2024-03-01 01:00"), at("2024-03-01 02:00")))
    assert figures("2024-02", "--team", TEAM)[0]["launched"] == 0
    (march,) = figures("2024-03", "--team", TEAM)
    assert (march["launched"], march["run_hours"]["waiting"]) == (1, 0.5)
    assert moment(at("2024-03-01 00:30")) == "2024-03-01T00:30:00+00:00"
