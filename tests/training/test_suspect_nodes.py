"""A node that was named twice within a day is suspect. What nobody could have written names no node."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from training.errors import HUNG_STATUS
from training.hosts.suspect_nodes import (
    DIRECTORY,
    SECONDS_OF_A_SUSPICION,
    attempt_of,
    excuse,
    judge_end,
    suspect,
    suspect_nodes,
    suspicions,
    why_suspect,
)

FIRST, SECOND, THIRD = (attempt_of("10.0.0.1", port) for port in (4001, 4002, 4003))
NODE = "ip-10-0-16-8"


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", NODE)


def age(file: Path, seconds: float) -> None:
    """Let a file have been written so many seconds ago."""
    then = time.time() - seconds
    os.utime(file, (then, then))


def test_a_node_is_suspect_once_it_was_named_in_two_attempts(tmp_path: Path) -> None:
    suspect(tmp_path, NODE, "fault", "hang: rank 3 does not answer, at step 7", FIRST)
    suspect(tmp_path, "other", "fault", "hang: rank 5 does not answer, at step 7", FIRST)
    assert suspect_nodes(tmp_path) == {}
    suspect(tmp_path, NODE, "fault", "local rank 0 ended by SIGBUS", SECOND)
    assert list(suspect_nodes(tmp_path)) == [NODE]
    why = why_suspect(suspicions(tmp_path, NODE))
    assert "hang: rank 3 does not answer, at step 7; 2" in why and why.endswith("local rank 0 ended by SIGBUS")


def test_one_failure_that_shows_twice_is_one_naming(tmp_path: Path) -> None:
    suspect(tmp_path, NODE, "fault", "local rank 0 ended by SIGBUS", FIRST)
    suspect(tmp_path, NODE, "fault", "hang: rank 3 does not answer, at step 7", FIRST)
    assert [each.reason for each in suspicions(tmp_path, NODE)] == ["local rank 0 ended by SIGBUS"]


@pytest.mark.parametrize(
    ("seconds", "counts"),
    [
        (SECONDS_OF_A_SUSPICION - 60, True),
        (SECONDS_OF_A_SUSPICION + 60, False),
        (-600, True),  # the clock of the writer is ahead
        (-7200, False),
    ],
)
def test_a_naming_counts_for_a_day(seconds: float, counts: bool, tmp_path: Path) -> None:
    for attempt in (FIRST, SECOND):
        suspect(tmp_path, NODE, "fault", "local rank 0 ended by SIGBUS", attempt)
        age(tmp_path / DIRECTORY / NODE / f"{attempt}-fault.json", seconds)
    assert bool(suspect_nodes(tmp_path)) is counts


@pytest.mark.parametrize(
    ("statuses", "counts"),
    [
        ([0, -signal.SIGBUS], True),
        ([-signal.SIGKILL, None], False),  # killed, for example out of memory
        ([1, -signal.SIGTERM], False),
        ([2, None], False),
        ([HUNG_STATUS, -signal.SIGKILL], True),  # the watchdog of a rank has killed its neighbor
    ],
)
def test_what_the_agent_sees_comes_before_the_verdict_of_the_watchdog(
    statuses: list[int | None], counts: bool, tmp_path: Path
) -> None:
    """To the watchdog of another node, a rank that was killed looks like one that hangs."""
    judge_end(tmp_path, statuses, FIRST)
    suspect(tmp_path, NODE, "fault", "hang: rank 3 does not answer, at step 7", FIRST)
    assert bool(suspicions(tmp_path, NODE)) is counts


def test_an_excuse_is_for_the_failures_of_one_attempt(tmp_path: Path) -> None:
    excuse(tmp_path, NODE, FIRST)
    suspect(tmp_path, NODE, "slow", "rank 3 was slow", FIRST)
    suspect(tmp_path, NODE, "fault", "hang: rank 3 does not answer, at step 7", SECOND)
    assert len(suspicions(tmp_path, NODE)) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{SECOND}-fault.json", ""),
        (f"{SECOND}-fault.json", '{"reason": "tor'),
        (f"{SECOND}-fault.json", "[" * 4000),
        (f"{SECOND}-fault.json", '["reason"]'),
        (f"{SECOND}-fault.json", '{"reason": 1}'),
        (f"{SECOND}-fault.json", '{"reason": ""}'),
        (f"{SECOND}-fault.json", '{"reason": "x", "more": 1}'),
        (f"{SECOND}-fault.json", json.dumps({"reason": "\x1b[2J"})),
        (f"{SECOND}-fault.json", json.dumps({"reason": "x" * 501})),
        (f"{SECOND}-fault.json", json.dumps({"reason": "x"}) + " " * 5000),
        (f"{SECOND}-fault.json", "\udcff"),
        (f"{SECOND}-other.json", '{"reason": "x"}'),
        ("x-fault.json", '{"reason": "x"}'),
        (f"{SECOND}-fault.json.part", '{"reason": "x"}'),
    ],
)
def test_a_file_that_is_no_naming_is_left_out(name: str, text: str, tmp_path: Path) -> None:
    suspect(tmp_path, NODE, "fault", "local rank 0 ended by SIGBUS", FIRST)
    (tmp_path / DIRECTORY / NODE / name).write_bytes(text.encode(errors="surrogateescape"))
    assert len(suspicions(tmp_path, NODE)) == 1
    suspect(tmp_path, NODE, "fault", "local rank 0 ended by SIGBUS", THIRD)
    assert len(suspicions(tmp_path, NODE)) == 2


def test_links_pipes_and_directories_are_no_namings(tmp_path: Path) -> None:
    suspect(tmp_path, NODE, "fault", "local rank 0 ended by SIGBUS", FIRST)
    directory = tmp_path / DIRECTORY / NODE
    (directory / f"{SECOND}-fault.json").symlink_to(directory / f"{FIRST}-fault.json")
    os.mkfifo(directory / f"{THIRD}-fault.json")
    (directory / f"{attempt_of('', 0)}-fault.json").mkdir()
    assert len(suspicions(tmp_path, NODE)) == 1


@pytest.mark.parametrize("node", ["", ".", "..", "../other", "a/b", "a b", "a\n", "x" * 300])
def test_a_name_that_no_node_has_is_not_written(node: str, tmp_path: Path) -> None:
    suspect(tmp_path / "run", node, "fault", "local rank 0 ended by SIGBUS", FIRST)
    assert not (tmp_path / "run").exists() and not (tmp_path / "other").exists()
    assert suspicions(tmp_path / "run", node) == []


def test_a_directory_that_cannot_be_written_names_nobody(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).write_text("a file")
    suspect(tmp_path, NODE, "fault", "local rank 0 ended by SIGBUS", FIRST)
    excuse(tmp_path, NODE, FIRST)
    assert suspect_nodes(tmp_path) == {}


def test_what_a_reason_has_no_terminal_obeys(tmp_path: Path) -> None:
    suspect(tmp_path, NODE, "fault", "rank 3\x1b[2J\n" + "x" * 600, FIRST)
    (found,) = suspicions(tmp_path, NODE)
    assert found.reason.startswith("rank 3 [2J xxx") and len(found.reason) == 500
