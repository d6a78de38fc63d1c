"""The records of runs: written once under a name, read by whoever may, and no others in the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

from emulator import Emulator, running
from tests.launch.registry.launches import SLURM
from tests.synthesis import ROOT
from trainway.launch.registry import connections, find
from trainway.launch.registry.record import RunRecord, UnreadableRecord, key_of, parse
from trainway.launch.registry.state import state_key_of
from trainway.launch.registry.store import NameTaken, RecordedRun, Registry
from trainway.launch.runs.run_directory import read_launch
from trainway.spec.errors import UsageError

REGISTRY = Registry("atlas", "us-east-1", "data", ("research", "product"))
RECORD = RunRecord("nightly-1", "research", "ada", "2026-11-24T10:00:00+00:00", {"job.yaml": "name: nightly\n"})
RUNNING = '{"schema_version": 1, "state": "running", "attempt": 1, "started": 1.0, "written": 2.0}'
WRITER = """
import sys
from tests.launch.registry.test_store import RECORD, REGISTRY
from dataclasses import replace
from trainway.launch.registry.store import NameTaken
sys.stdin.readline()
for number in range(8):
    try:
        REGISTRY.reserve(replace(RECORD, run=f"run-{number}", owner=sys.argv[1]))
        print(number, flush=True)
    except NameTaken:
        pass
"""


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running(region=REGISTRY.region) as started:
        yield started


@pytest.fixture(autouse=True)
def bucket(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    s3 = boto3.resource("s3", region_name=REGISTRY.region)
    made = s3.create_bucket(Bucket=REGISTRY.bucket)
    yield
    made.objects.delete()
    made.delete()


def test_a_record_is_read_as_it_was_written() -> None:
    REGISTRY.reserve(RECORD)
    assert REGISTRY.read("nightly-1") == RECORD
    REGISTRY.write(RECORD.taken(SLURM))
    found = REGISTRY.read("nightly-1")
    assert found is not None and found.launch == SLURM
    assert list(REGISTRY.records()) == [found] and list(REGISTRY.records(["product"])) == []
    REGISTRY.release(RECORD)
    assert REGISTRY.read("nightly-1") is None


def test_two_teams_can_have_a_run_of_one_name_and_it_is_then_no_name_of_one_run() -> None:
    for team in (*REGISTRY.teams, None):
        REGISTRY.reserve(replace(RECORD, team=team))
        with pytest.raises(NameTaken):
            REGISTRY.reserve(replace(RECORD, team=team, owner="linus"))
    with pytest.raises(UsageError, match="the teams research and product and None have a run of this name"):
        REGISTRY.read("nightly-1")
    found = replace(REGISTRY, teams=("research",)).records(["research"])
    assert [each.owner for each in found] == ["ada"]


def test_of_many_writers_of_one_name_one_succeeds() -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    said = [writer.communicate("begin\n", timeout=1800)[0] for writer in writers]
    assert sorted(int(line) for each in said for line in each.split()) == list(range(8))


def test_a_run_that_was_reserved_and_never_submitted_is_taken_over_once() -> None:
    REGISTRY.reserve(RECORD)
    later = [replace(RECORD, started=f"2026-11-24T1{hour}:00:00+00:00") for hour in (1, 2)]
    # Both have read the same record.
    both = [(each, REGISTRY._text_and_etag(RECORD.key)[1]) for each in later]
    REGISTRY._put(both[0][0], IfMatch=both[0][1])
    with pytest.raises(NameTaken):
        REGISTRY._put(both[1][0], IfMatch=both[1][1])
    assert REGISTRY.take_over(later[1]) is True
    assert REGISTRY.take_over(later[1]) is False, "it is taken over already"
    REGISTRY.write(RECORD.taken(SLURM))
    assert REGISTRY.take_over(later[0]) is False, "it was submitted"
    assert REGISTRY.take_over(replace(RECORD, run="absent")) is False


def test_runs_are_found_by_the_beginning_of_their_names() -> None:
    for run in ("nightly-step-2", "nightly-step-4", "nightly", "weekly-step-2"):
        REGISTRY.reserve(replace(RECORD, run=run))
    REGISTRY.reserve(replace(RECORD, run="nightly-step-6", team="product"))
    assert sorted(each.run for each in REGISTRY.named("research", "nightly-step-")) == [
        "nightly-step-2",
        "nightly-step-4",
    ]


def put(key: str, text: str) -> None:
    boto3.client("s3", region_name=REGISTRY.region).put_object(Bucket=REGISTRY.bucket, Key=key, Body=text.encode())


def test_runs_come_with_their_states_and_the_others_are_named() -> None:
    names = ["a", "a-1", "b", "c", "d"]
    for run in names:
        REGISTRY.reserve(replace(RECORD, run=run))
    for run, text in (("a", RUNNING), ("a-1", RUNNING.replace("running", "failed")), ("c", "{"), ("orphan", RUNNING)):
        put(state_key_of("research", run), text)
    put(key_of("research", "d"), "no record")
    put("runs/research/.registry/notes.txt", "something else")
    found = {each.record.run: each.state for each in REGISTRY.runs("research") if isinstance(each, RecordedRun)}
    assert {run: state and state.state for run, state in found.items()} == {"a": "running", "a-1": "failed", "b": None}
    others = {each.run: each.why for each in REGISTRY.runs("research") if isinstance(each, UnreadableRecord)}
    assert others == {
        "c": "its state: it is not JSON",
        "d": "it is not JSON",
        "orphan": "the run has a state and no record",
    }


def test_only_runs_that_changed_since_and_are_wanted_are_read() -> None:
    for name in ("old", "other", "run"):
        REGISTRY.reserve(replace(RECORD, run=name))
        put(state_key_of("research", name), RUNNING)
    asked: list[str] = []
    registry = replace(REGISTRY)
    registry._client.meta.events.register(
        "before-call.s3.GetObject", lambda params, **_: asked.append(str(params["url_path"]).rpartition("/")[2])
    )
    [run] = registry.runs("research", wanted=lambda record: record.run == "run")
    assert isinstance(run, RecordedRun) and run.record.run == "run" and run.changed <= datetime.now(UTC)
    assert sorted(asked) == ["old.json", "other.json", "run.json", "run.state"]
    asked.clear()
    assert list(registry.runs("research", since=datetime.now(UTC) + timedelta(days=1))) == [] and asked == []


def test_runs_on_several_pages_of_the_list_are_whole() -> None:
    for number in range(520):
        put(key_of("research", f"r{number}"), replace(RECORD, run=f"r{number}").as_text())
        put(state_key_of("research", f"r{number}"), RUNNING)
    found = list(REGISTRY.runs("research"))
    assert len(found) == 520 and all(isinstance(each, RecordedRun) and each.state for each in found)


def test_a_bucket_that_cannot_be_written_is_a_sentence_with_the_right_that_is_missing() -> None:
    with pytest.raises(UsageError, match=r"s3://elsewhere/runs/research/\.registry/nightly-1\.json cannot be written"):
        replace(REGISTRY, bucket="elsewhere").reserve(RECORD)


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema_version": 2}', '{"schema_version": 1, "run": "x"}', "no JSON"])
def test_what_is_no_record_is_told_so(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text, RECORD.key)
    boto3.client("s3", region_name=REGISTRY.region).put_object(
        Bucket=REGISTRY.bucket, Key=key_of("research", "nightly-1"), Body=text.encode()
    )
    with pytest.raises(UsageError, match="the record of the run nightly-1 is unreadable"):
        REGISTRY.read("nightly-1")


def test_a_run_that_is_here_is_brought_up_to_date() -> None:
    REGISTRY.reserve(RECORD)
    REGISTRY.write(RECORD.taken(SLURM))
    found = REGISTRY.read(RECORD.run)
    assert found is not None
    run = find.kept_here(found, replace(REGISTRY, on_platform={("slurm", RECORD.team): {}}))
    assert (run / "job.yaml").read_text() == "name: nightly\n"
    later = SLURM["handle"] | {"job": "18"}
    REGISTRY.write(replace(found, attempts=2, launch=SLURM | {"handle": later}))
    assert find.find_run(RECORD.run) == run
    launch = read_launch(run)
    assert (launch["handle"], launch["registry"]["attempts"]) == (later, 2)


def test_a_damaged_list_of_platforms_says_how_to_mend_it(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "trainway" / "platforms.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    with pytest.raises(UsageError, match="run `trainway connect` again"):
        list(connections.connections())


def test_a_platform_that_is_not_deployed_is_not_remembered(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no platform of the name atlas is deployed there"):
        connections.connect("atlas", REGISTRY.region)
    assert not (tmp_path / ".config").exists()
