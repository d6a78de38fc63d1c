"""Ranks that are started again meet each other, and nothing that ended ranks have left in the store."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.faults.moments import wait_for_event
from tests.training.conftest import Launch, StartRank
from tests.training.torchrun_server import TorchrunServer
from training.errors import HUNG_STATUS

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store, TCPStore  # the public names are not declared as exported

PROGRAM = Path(__file__).with_name("attempt_of_ranks.py")


@pytest.fixture
def kept() -> Iterator[TCPStore]:
    """A store that outlives the ranks, as that of a torchrun agent does."""
    from torch._C._distributed_c10d import TCPStore

    yield TCPStore("127.0.0.1", 0, is_master=True)


def environment(store: TCPStore, rank: int, ranks: int) -> dict[str, str]:
    """What torchrun tells a rank whose store is in an agent."""
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port, "TORCHELASTIC_USE_AGENT_STORE": True}
    return os.environ | {name: str(value) for name, value in (told | where).items()} | {"OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("late", [0, 1])
def test_ranks_that_start_again_do_not_connect_with_those_that_ended(
    late: int, kept: TCPStore, torchrun: TorchrunServer
) -> None:
    for delay in ("0", "1", "1"):
        started = [
            torchrun.start_python([str(PROGRAM), delay if rank == late else "0"], environment(kept, rank, 3))
            for rank in range(3)
        ]
        for rank, process in enumerate(started):
            output, _ = process.communicate(300)
            assert f"rank {rank} of 3 has 6" in output, output


def attempts(store: TCPStore, ranks: range, world: int) -> tuple[dict[int, Store], list[threading.Thread]]:
    """Start a thread for each of these ranks of an attempt. Return what each has got so far, and the threads."""
    from torch._C._distributed_c10d import TCPStore

    from training.parallel.attempt import store_of_attempt

    got: dict[int, Store] = {}

    def meet(rank: int) -> None:
        client = TCPStore("127.0.0.1", store.port, is_master=False)
        got[rank] = store_of_attempt(client, rank, world, lambda _: None)

    threads = [threading.Thread(target=meet, args=(rank,), daemon=True) for rank in ranks]
    for thread in threads:
        thread.start()
    return got, threads


def test_each_attempt_has_keys_of_its_own_that_all_its_ranks_see(kept: TCPStore) -> None:
    for attempt in range(3):
        got, threads = attempts(kept, range(4), 4)
        for thread in threads:
            thread.join(300)
        for rank, store in got.items():
            assert not store.check([f"trainway/node/{rank}"]), f"attempt {attempt} has keys of the one before"
        for rank, store in got.items():
            store.set(f"trainway/node/{rank}", str(rank))
        for store in got.values():
            assert store.multi_get([f"trainway/node/{rank}" for rank in range(4)]) == [b"0", b"1", b"2", b"3"]


def test_ranks_of_an_attempt_that_was_cut_off_keep_nobody_from_the_next(kept: TCPStore) -> None:
    # Rank 1 of the first attempt has asked, and ended before rank 0 came.
    kept.set("trainway/attempt/rank/1", "a number of an ended rank")
    got, threads = attempts(kept, range(1), 2)
    kept.wait(["trainway/attempt/answer/a number of an ended rank"])
    assert not got, "rank 0 goes on without rank 1"
    others, more = attempts(kept, range(1, 2), 2)
    for thread in (*threads, *more):
        thread.join(300)
    got[0].set("met", "yes")
    assert others[1].get("met") == b"yes"


def test_a_rank_whose_peers_do_not_come_says_who_is_missing_and_ends(
    job: dict[str, Any], tmp_path: Path, kept: TCPStore, start_rank: StartRank
) -> None:
    config = tmp_path / "job.yaml"
    config.write_text(yaml.safe_dump(job | {"hang_detection": {"meeting_seconds": 2}}))
    alone = start_rank(config, **environment(kept, 0, 4), TRAINWAY_RUN=str(tmp_path / "run"))
    without_a_store = environment(kept, 3, 4) | {"MASTER_PORT": "9", "TRAINWAY_RUN": str(tmp_path / "other")}
    nobody = start_rank(config, **without_a_store)
    output, _ = alone.communicate(timeout=300)
    assert alone.returncode == HUNG_STATUS, output
    expected = "the meeting of the ranks has taken 2 s, and may take 2 s. 3 of 4 ranks have not come: 1, 2, 3"
    assert expected in output
    assert "in meet" in (tmp_path / "run/hangs/meeting/rank-0.stacks").read_text()
    output, _ = nobody.communicate(timeout=300)
    assert nobody.returncode == HUNG_STATUS, output
    assert "Nothing answers at 127.0.0.1:9, where the store of the rendezvous should be" in output


@pytest.mark.exhaustive
@pytest.mark.parametrize("victim", [0, 1])
def test_plain_torchrun_restarts_without_any_variable(
    victim: int, launch_program: Launch, job: dict[str, Any], untouched: str
) -> None:
    run = launch_program(job, 2, PET_MAX_RESTARTS="3", PET_MONITOR_INTERVAL="0.1")
    # Each start gets to a step of its own before it is killed.
    for starts in (1, 2, 3):
        wait_for_event(run, "start", count=starts)
        wait_for_event(run, "step", int(run.events("start")[-1]["resumed_from"] or 0) + 3)
        os.kill(run.workers()[victim], signal.SIGKILL)
    output = run.finish()
    assert run.events("end")[-1]["loss_hex"] == untouched, output
    assert len(run.events("start")) == 4, output
