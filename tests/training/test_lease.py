"""Two runs never write to one location, and the lease of a dead run is no obstacle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.test_resume import wait_for
from training.errors import LocationInUse
from training.hosts import lease, location_files
from training.hosts.lease import FILE, Lease, LeaseHolder, this_process

ELSEWHERE = LeaseHolder("1", "runs/other", "another-host", "another boot", 7, 7)


@pytest.fixture(params=["disk", "s3"])
def location(request: pytest.FixtureRequest) -> str:
    """A location that nobody has."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/checkpoints/x"
    return str(request.getfixturevalue("tmp_path") / "checkpoints")


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats that are late after two seconds."""
    monkeypatch.setattr(lease, "SECONDS_BETWEEN_BEATS", 0.1)
    monkeypatch.setattr(lease, "SECONDS_UNTIL_DEAD", 2.0)


def take(location: str, on_loss: Callable[[], None] = lambda: None) -> Lease:
    return Lease(location, this_process("runs/this"), on_loss)


def put(location: str, holder: LeaseHolder) -> None:
    """Write the lease as another process would."""
    location_files.write(location_files.join(location, FILE), json.dumps(asdict(holder)).encode())


def holder_of(location: str) -> LeaseHolder:
    content = location_files.read(location_files.join(location, FILE))
    assert content is not None
    return lease._parsed(content)


@pytest.mark.usefixtures("fast")
def test_a_second_run_is_refused_until_the_first_gives_the_lease_back(location: str) -> None:
    first = take(location)
    with pytest.raises(
        LocationInUse, match=rf"{location}: another run writes here: runs/this, process {os.getpid()} on"
    ):
        take(location)
    beat = holder_of(location).beat
    while holder_of(location).beat < beat + 2:
        assert first.loss() is None
    first.release()
    assert location_files.list_files(location) == []
    take(location).release()


def test_of_many_runs_that_start_together_one_wins(location: str) -> None:
    barrier = threading.Barrier(6)

    def attempt(_: int) -> Lease | None:
        barrier.wait()
        try:
            return take(location)
        except LocationInUse:
            return None

    put(location, replace(this_process("runs/dead"), pid=2**22 + 1))
    with ThreadPoolExecutor(6) as threads:
        won = [each for each in threads.map(attempt, range(6)) if each]
    assert len(won) == 1
    won[0].release()


def test_the_lease_of_a_killed_process_of_this_host_is_taken_over_at_once(location: str) -> None:
    program = (
        "import sys, time; from training.hosts.lease import *; "
        "Lease(sys.argv[1], this_process('runs/killed'), print); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, location], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LocationInUse, match="runs/killed"):
            take(location)
        process.kill()
    take(location).release()


@pytest.mark.usefixtures("fast")
def test_a_heartbeat_of_another_host_that_stands_still_is_that_of_a_dead_run(location: str) -> None:
    put(location, ELSEWHERE)
    mine = take(location)
    assert holder_of(location).run == "runs/this"
    mine.release()

    ended = threading.Event()

    def beat() -> None:
        number = 0
        while not ended.wait(0.2):
            number += 1
            put(location, replace(ELSEWHERE, beat=number))

    put(location, ELSEWHERE)
    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(LocationInUse, match="runs/other, process 7 on another-host"):
            take(location)
    finally:
        ended.set()
        thread.join()


def test_a_job_that_slurm_starts_again_takes_its_lease_at_once(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    put(location, replace(ELSEWHERE, slurm_job="7", slurm_start=0))
    monkeypatch.setattr(lease, "SECONDS_UNTIL_DEAD", float("inf"))
    mine = take(location)
    assert holder_of(location) == replace(holder_of(location), slurm_job="7", slurm_start=1)
    mine.release()


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("other", [{"slurm_job": "8"}, {"slurm_job": "7", "slurm_start": 1}, {"slurm_job": ""}])
def test_a_job_of_slurm_waits_for_the_heartbeat_of_another(
    location: str, other: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    put(location, replace(ELSEWHERE, **other))
    take(location).release()
    assert "waiting for a heartbeat of runs/other" in capsys.readouterr().out


def test_a_run_whose_torchrun_agents_had_the_lease_before_takes_it_at_once(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host of the process that had the lease is lost, and the agents of other hosts have started this run."""
    put(location, replace(ELSEWHERE, agents=("lost", "remains")))
    monkeypatch.setattr(lease, "SECONDS_UNTIL_DEAD", float("inf"))
    mine = Lease(location, this_process("runs/this", ("new", "remains")), lambda: None)
    assert holder_of(location).agents == ("new", "remains")
    mine.release()


@pytest.mark.usefixtures("fast")
def test_a_run_of_other_torchrun_agents_waits_for_the_heartbeat(
    location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(location, replace(ELSEWHERE, agents=("lost", "remains")))
    Lease(location, this_process("runs/this", ("new",)), lambda: None).release()
    assert "waiting for a heartbeat of runs/other" in capsys.readouterr().out


def test_a_lease_of_an_earlier_version_names_no_agents(location: str) -> None:
    put(location, ELSEWHERE)
    content = json.loads(location_files.read(location_files.join(location, FILE)) or b"")
    del content["agents"]
    assert lease._parsed(json.dumps(content).encode()) == ELSEWHERE


@pytest.mark.usefixtures("fast")
def test_a_run_notices_that_another_took_over_and_that_its_lease_was_deleted(location: str) -> None:
    lost = threading.Event()
    mine = take(location, lost.set)
    location_files.delete(location, [FILE])
    while location_files.read(location_files.join(location, FILE)) is None:
        assert mine.loss() is None
    put(location, ELSEWHERE)
    assert lost.wait(300)
    assert "another run took over: runs/other, process 7 on another-host" in str(mine.loss())
    mine.release()
    assert holder_of(location) == ELSEWHERE, "the lease of the other run stays"


@pytest.mark.exhaustive
def test_a_second_run_is_refused_with_a_status_and_resumes_when_the_first_is_killed(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    first = launch(job | {"steps": 100_000}, 2)
    wait_for(first, "step", 2)
    for name, changes in (("run", {"checkpoint": job["checkpoint"] | {"location": str(tmp_path / "b")}}), ("b", {})):
        second = launch(job | changes, 2, name=name, PET_MONITOR_INTERVAL="5")
        output, _ = second.process.communicate(timeout=1800)
        assert output.count(f"exitcode  : {LocationInUse.status}") == 2, output
        in_use = tmp_path / ("run" if changes else "checkpoints")
        assert output.count(f"{in_use}: another run writes here: {tmp_path}/run, process ") == 1
    assert not second.events("start")
    wait_for(first, "checkpoint", 4)
    for pid in [first.process.pid, *first.workers()]:
        os.kill(pid, signal.SIGKILL)
    first.process.wait()

    third = launch(job | {"steps": 100_000}, 2, "--until-step", "1")
    third.finish()
    assert third.events("start")[-1]["resumed_from"] >= 4
    assert not list(tmp_path.glob(f"*/{FILE}"))
