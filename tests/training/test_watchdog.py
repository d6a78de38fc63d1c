"""A run whose ranks hang ends them, keeps their stacks, names the rank that the others wait for, and restarts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import STEPS, Launch, Run
from training.errors import HUNG_STATUS
from training.observe.hang_report import RankRecord, position_of, sentence, suspects

# A step of the tests' job takes some hundredths of a second, and a few times as long on a busy machine.
HANG_DETECTION = {"least_seconds": 3}


# A rank that ends while its watchdog waits for a slow answer of the store.
IMPATIENT_RANK = """
import contextlib, datetime, pathlib, sys, threading
import torch.distributed as dist
from training.config.hang_detection import HangDetection
from training.observe.watchdog import Watchdog

class SlowStore:
    def __init__(self, store):
        self.set, self.get, self._wait = store.set, store.get, store.wait
        self.is_asked = threading.Event()

    def check(self, keys):
        self.is_asked.set()
        with contextlib.suppress(dist.DistError):
            self._wait(keys, datetime.timedelta(seconds=1))

dist.init_process_group("gloo")
with contextlib.closing(Watchdog(HangDetection(), pathlib.Path(sys.argv[1]))) as watchdog:
    watchdog.share(dist.distributed_c10d._get_default_store())
    watchdog._store = SlowStore(watchdog._store)
    watchdog._store.is_asked.wait()
dist.destroy_process_group()
"""


def record(rank: int, step: int = 7, position: str = "training.step:88 (all_reduce)") -> RankRecord:
    return RankRecord(rank, f"node-{rank // 2}", 100 + rank, 99, step, "a step", position)


def test_a_rank_that_does_not_answer_is_the_suspect() -> None:
    found = suspects([record(0, step=8), record(1), record(2, position="")])
    assert [each.rank for each in found.records] == [2]
    assert found.reason == "does not answer"


def test_ranks_that_are_behind_are_the_suspects() -> None:
    found = suspects([record(0), record(1, step=6), record(2, step=6)])
    assert [each.rank for each in found.records] == [1, 2]


def test_the_rank_that_is_elsewhere_is_the_suspect() -> None:
    found = suspects([record(0), record(1), record(2, position="training.data.shards:20 (read)")])
    assert [each.rank for each in found.records] == [2]


def test_ranks_that_do_not_differ_are_no_suspects() -> None:
    assert suspects([record(0), record(1)]).records == []
    assert suspects([record(0), record(1, position="training.data.shards:20 (read)")]).records == []


def test_the_sentence_names_what_hangs_where_and_the_stacks(tmp_path: Path) -> None:
    said = sentence("a step", 61.2, 60, suspects([record(0), record(1), record(2, position="")]), tmp_path)
    assert said == (
        "a step has taken 61 s, and may take 60 s. Rank 2 (host node-1, process 102) does not answer, at step 7. "
        f"The stacks of all ranks are in {tmp_path}"
    )


def test_a_sentence_about_hundreds_of_ranks_names_eight(tmp_path: Path) -> None:
    said = sentence("a step", 61, 60, suspects([record(rank, position="") for rank in range(300)]), tmp_path)
    assert "and 292 more do not answer" in said


@pytest.mark.parametrize("ahead", [0, -600, 600, -86_400, 86_400])
def test_one_rank_of_each_attempt_reports_whatever_the_clocks_say(ahead: float, tmp_path: Path) -> None:
    """Ranks that do not meet share the file `report`, whose time is that of the host or server that wrote it."""
    from training.config.hang_detection import HangDetection
    from training.observe.watchdog import Watchdog

    report = tmp_path / "hangs/meeting/report"
    report.parent.mkdir(parents=True)

    def attempt() -> list[bool]:
        told = []
        for rank in [Watchdog(HangDetection(action="none"), tmp_path) for _ in range(2)]:
            told.append(rank._is_first_to_report())
            os.utime(report, (time.time() + ahead,) * 2)
        return told

    assert [attempt() for _ in range(3)] == [[True, False]] * 3


def test_the_position_of_a_thread_is_the_line_where_it_waits() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert thread.ident is not None
        assert position_of(thread.ident).startswith("threading:")
    finally:
        end.set()
        thread.join()
    assert position_of(-1) == "no Python code"


def steps_of(run: Run) -> list[int]:
    return [event["step"] for event in run.events("step")]


def until(run: Run, step: int) -> None:
    """Wait until the run has reported a step."""
    end = time.monotonic() + 300
    while step not in steps_of(run):
        assert run.process.poll() is None and time.monotonic() < end, run.process.communicate()[0]
        time.sleep(0.01)


@pytest.mark.parametrize("stopped", [1, pytest.param(0, marks=pytest.mark.exhaustive)])
def test_a_rank_that_is_stopped_is_named_and_the_run_restarts_to_the_same_loss(
    stopped: int, launch: Launch, job: dict[str, Any], untouched: str
) -> None:
    faults = [{"samples": [56, 63], "rank": stopped, "kind": "stop"}]
    document = job | {"hang_detection": HANG_DETECTION}
    restarts = {"PET_MAX_RESTARTS": "1", "PET_MONITOR_INTERVAL": "0.1"}
    run = launch(document, 2, module="tests.training.faulty_train", FAULTS=json.dumps(faults), **restarts)
    output = run.finish()
    (hang,) = run.events("hang")
    # The store is in rank 0, so when rank 0 is stopped nobody can ask who answers.
    assert hang["suspects"] == ([1] if stopped else []), hang
    stacks = Path(hang["stacks"])
    assert "training/train.py" in (stacks / f"rank-{1 - stopped}.stacks").read_text()
    assert "hang: a step has taken" in output
    assert len(run.events("start")) == 2
    assert run.events("end")[-1]["loss_hex"] == untouched
    assert steps_of(run)[-1] == STEPS


@pytest.mark.exhaustive
def test_a_rank_that_holds_pythons_lock_writes_its_stacks_and_the_run_restarts(
    launch: Launch, job: dict[str, Any], untouched: str
) -> None:
    faults = [{"samples": [56, 60], "rank": 1, "kind": "lock"}]
    document = job | {"hang_detection": HANG_DETECTION}
    restarts = {"PET_MAX_RESTARTS": "1", "PET_MONITOR_INTERVAL": "0.1"}
    run = launch(document, 2, module="tests.training.faulty_train", FAULTS=json.dumps(faults), **restarts)
    output = run.finish()
    (hang,) = run.events("hang")
    assert hang["suspects"] == [1]
    assert "in faulty_gradients" in output
    assert run.events("end")[-1]["loss_hex"] == untouched


@pytest.mark.exhaustive
def test_a_run_that_was_stopped_as_a_whole_does_not_hang(launch: Launch, job: dict[str, Any], untouched: str) -> None:
    faults = [{"samples": [24, 31], "rank": rank, "kind": "stop"} for rank in (0, 1)]
    document = job | {"hang_detection": HANG_DETECTION}
    run = launch(document, 2, module="tests.training.faulty_train", FAULTS=json.dumps(faults))
    until(run, 2)
    ranks = run.workers()
    while any(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[0] != "T" for rank in ranks):
        assert run.process.poll() is None
        time.sleep(0.05)
    time.sleep(HANG_DETECTION["least_seconds"] + 4)
    for rank in ranks:
        os.kill(rank, signal.SIGCONT)
    run.finish()
    assert run.events("hang") == []
    assert run.events("end")[-1]["loss_hex"] == untouched


@pytest.mark.exhaustive
def test_no_rank_crashes_when_it_ends_while_it_waits_for_the_store(tmp_path: Path) -> None:
    rank = tmp_path / "rank.py"
    rank.write_text(IMPATIENT_RANK)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*torchrun, str(rank), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
def test_a_run_without_restarts_ends_with_a_status_of_its_own(launch: Launch, job: dict[str, Any]) -> None:
    faults = [{"samples": [40, 47], "rank": 1, "kind": "stop"}]
    document = job | {"hang_detection": HANG_DETECTION}
    run = launch(document, 2, module="tests.training.faulty_train", FAULTS=json.dumps(faults), PET_MAX_RESTARTS="0")
    output, _ = run.process.communicate(timeout=1800)
    assert f"exitcode  : {HUNG_STATUS}" in output, output


def test_a_comparison_of_paces_that_fails_ends_no_heartbeats(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from torch._C._distributed_c10d import HashStore
    from torch.distributed import DistStoreError

    from training.config.hang_detection import HangDetection
    from training.observe.watchdog import Watchdog

    def fails(error: Exception) -> Callable[[Any], None]:
        def compare(_store: object) -> None:
            raise error

        return compare

    with contextlib.closing(Watchdog(HangDetection(action="none"), tmp_path)) as watchdog:
        watchdog._store = HashStore()
        watchdog.on_beat = fails(DistStoreError("the store is gone"))
        with pytest.raises(DistStoreError):
            watchdog._tell_beat()
        watchdog.on_beat = fails(KeyError("seconds"))
        watchdog._tell_beat()
        assert watchdog.on_beat is None
    assert "the comparison of the ranks' pace has failed" in capfd.readouterr().err
