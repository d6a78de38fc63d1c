"""The agent of the training job starts the ranks again at once, for as long as they make progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.moments import wait_for_event
from tests.faults.test_processes import lives
from tests.training.conftest import Launch, Run, children_of, launching
from tests.training.torchrun_server import TorchrunServer

# The ranks are forks of the agent of the tests, which has imported everything, or of its own warm process.
FORKS = {"PET_START_METHOD": "fork"}


@pytest.fixture(params=[FORKS, pytest.param({}, marks=pytest.mark.exhaustive)], ids=["fork", "warm"])
def elastic(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launch]:
    """Starts a job under the agent. In `make test-all` also as every target starts it."""
    server = request.getfixturevalue("torchrun") if request.param else None
    with launching(tmp_path, server) as start:

        def begin(job: dict[str, Any], processes: int, *arguments: str, **environment: str) -> Run:
            told = {"PET_MAX_RESTARTS": "1", "PET_MONITOR_INTERVAL": "0.1", **request.param, **environment}
            return start(job, processes, *arguments, elastic=True, **told)

        yield begin


def test_each_new_checkpoint_allows_another_restart(elastic: Launch, job: dict[str, Any]) -> None:
    # On a busy machine, a job of some steps would end before it is disturbed.
    steps = 100
    run = elastic(job | {"steps": steps, "checkpoint": job["checkpoint"] | {"every": 10}}, 2)
    for number in range(3):
        wait_for_event(run, "start", count=number + 1)
        wait_for_event(run, "checkpoint", 1 + (run.events("start")[-1]["resumed_from"] or 0))
        os.kill(run.workers()[number % 2], signal.SIGKILL)
    output = run.finish()
    assert len(run.events("start")) == 4, output
    (end,) = run.events("end")
    assert end["step"] == steps


def test_a_rank_that_is_killed_after_it_has_returned_is_a_failure_and_no_hang(torchrun: TorchrunServer) -> None:
    told = {"PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "3", "PET_MONITOR_INTERVAL": "0.1", "PET_MAX_RESTARTS": "0"}
    program = Path(__file__).with_name("ranks_that_return.py")
    ended = torchrun.start_python([str(program)], os.environ | FORKS | told)
    output, _ = ended.communicate(300)
    assert ended.returncode == 1, output
    assert "the ranks are not started again: they failed 1 time" in output


def test_restarts_without_a_new_checkpoint_end_the_job_with_a_sentence(elastic: Launch, job: dict[str, Any]) -> None:
    document = job | {"checkpoint": job["checkpoint"] | {"every": 1000}, "steps": 100_000}
    run = elastic(document, 2)
    for starts in (1, 2):
        wait_for_event(run, "start", 0, starts)
        os.kill(run.workers()[1], signal.SIGKILL)
    output, _ = run.process.communicate(timeout=300)
    assert run.process.returncode == 1
    assert "are not started again: they failed 2 times without a new checkpoint, and may be restarted 1 time" in output


def test_a_mistake_ends_the_job_at_once_with_its_own_status(elastic: Launch, job: dict[str, Any]) -> None:
    run = elastic(job | {"batch": {"global": 7, "micro": 2}}, 2)
    output, _ = run.process.communicate(timeout=300)
    assert run.process.returncode == 2, output
    assert output.count("a global batch of 7 samples") == 1, output
    assert "the ranks are not started again: rank 0 of this node ended with status 2, for good" in output


@pytest.mark.parametrize(
    ("statuses", "expected", "said"),
    [
        ("0 0", 1, "all ranks of this node ended, with status [0, 0], and not as a job ends"),
        ("1 77", 77, "rank 1 of this node ended with status 77, for good"),
        ("77 1", 77, "rank 0 of this node ended with status 77, for good"),
    ],
)
def test_ranks_that_end_between_two_looks_of_the_agent_are_all_looked_at(
    statuses: str, expected: int, said: str, torchrun: TorchrunServer
) -> None:
    told = {"PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "2", "PET_MONITOR_INTERVAL": "2", "STATUSES": statuses}
    program = Path(__file__).with_name("ranks_that_end.py")
    ended = torchrun.start_python([str(program)], os.environ | FORKS | told)
    output, _ = ended.communicate(300)
    assert said in output, output
    assert ended.returncode == expected
    assert not Path("suspects").exists(), "the agent knows no directory of the run"


def test_logs_that_cannot_be_written_end_the_job_with_a_sentence(elastic: Launch, job: dict[str, Any]) -> None:
    # Nobody can make a directory there.
    run = elastic(job, 2, PET_LOG_DIR="/sys/trainway/logs")
    output, _ = run.process.communicate(timeout=300)
    assert run.process.returncode == 77, output
    assert output.startswith("/sys/trainway/logs: the logs of the run cannot be written. Mount")


def test_a_stop_saves_a_checkpoint(elastic: Launch, job: dict[str, Any]) -> None:
    # On a busy machine, a save can take longer than torchrun's 30 seconds.
    run = elastic(job | {"steps": 100_000}, 2, PET_SHUTDOWN_TIMEOUT="300")
    wait_for_event(run, "step", 3)
    # Slurm signals every process of a job.
    for pid in (*run.workers(), *children_of(run.process.pid), run.process.pid):
        os.kill(pid, signal.SIGTERM)
    output, _ = run.process.communicate(timeout=300)
    assert run.events("end"), output
    (end,) = run.events("end")
    assert run.events("checkpoint")[-1]["step"] == end["step"] < 100_000, output


def test_a_stop_while_the_node_waits_for_others_is_no_start(tmp_path: Path) -> None:
    told = {
        "PET_NNODES": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "localhost:0",
        "PET_START_METHOD": "spawn",
        "TRAINWAY_RESTARTS": "1",
        "TRAINWAY_RUN": str(tmp_path),
    }
    node = subprocess.Popen([sys.executable, "-m", "training.elastic"], env=os.environ | told, stderr=subprocess.PIPE)
    try:
        counted = tmp_path / "restarts.json"
        while not counted.exists() and node.poll() is None:
            time.sleep(0.1)
        node.terminate()
        _, said = node.communicate(timeout=300)
    finally:
        node.kill()
    assert json.loads(counted.read_text())["count"] == 0, said.decode()
    assert node.returncode == 1


def test_a_node_that_did_not_end_the_run_ends_after_the_one_that_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from torch.distributed.elastic.rendezvous import RendezvousClosedError

    from training import elastic

    def start() -> None:
        raise RendezvousClosedError

    waited = list[float]()
    monkeypatch.setenv("TRAINWAY_RUN", str(tmp_path))
    for name in ("TRAINWAY_AGENT", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "PET_LOG_DIR"):
        # What the agent sets is gone after the test.
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(elastic, "_start", start)
    monkeypatch.setattr(elastic, "time", SimpleNamespace(sleep=waited.append))
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit, match=r"^1$"):
            elastic.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert waited == [elastic.SECONDS_AFTER_ANOTHER_NODE]
    assert "the run has ended on another node, whose log says why" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("variables", "backend", "endpoint"),
    [
        ({}, "c10d", "localhost:0"),
        ({"PET_STANDALONE": "1"}, "c10d", "localhost:0"),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "first"}, "static", "first:29500"),
        ({"PET_MASTER_PORT": "29600"}, "static", "127.0.0.1:29600"),
        ({"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "first:1"}, "c10d", "first:1"),
    ],
    ids=["none", "standalone", "a first node", "a port", "an endpoint"],
)
def test_options_are_completed_as_by_torchrun(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], backend: str, endpoint: str
) -> None:
    from torch.distributed.run import config_from_args

    from training.elastic import options_for

    for name in [name for name in os.environ if name.startswith("PET_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config, _, _ = config_from_args(options_for([]))
    assert (config.rdzv_backend, config.rdzv_endpoint) == (backend, endpoint)


@pytest.mark.exhaustive
def test_ranks_end_with_their_agent(elastic: Launch, job: dict[str, Any]) -> None:
    run = elastic(job | {"steps": 100_000}, 2)
    wait_for_event(run, "step", 3)
    ranks = run.workers()
    assert len(ranks) == 2
    run.process.kill()
    run.process.communicate(timeout=300)
    assert not any(lives(rank) for rank in ranks)


@pytest.mark.exhaustive
def test_a_run_goes_on_when_the_warm_process_is_killed(elastic: Launch, job: dict[str, Any], untouched: str) -> None:
    run = elastic(job, 2)
    wait_for_event(run, "checkpoint", 4)
    for pid in children_of(run.process.pid):
        os.kill(pid, signal.SIGKILL)
    output = run.finish()
    assert run.events("end")[-1]["loss_hex"] == untouched, output
