"""Checkpoints in the nodes' memory: they outlive the processes and a node, and are gone when the job ends well."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.training.conftest import final_loss, job_of
from tests.training.torchrun_server import TorchrunServer

# On a busy machine, a job of some steps would end before its processes are killed.
STEPS = 100


class Nodes:
    """One rank on each of two nodes, which torchrun starts again once."""

    def __init__(self, launch: Any, job: dict[str, Any], directory: Path) -> None:
        self._launch, self._job = launch, job
        self.memories = [directory / "memory-a", directory / "memory-b"]
        # A fifth of a disk stays free, and the disk of this machine may have less.
        self.disks = [Path(tempfile.mkdtemp(prefix="disk-", dir="/dev/shm")) for _ in range(2)]
        self.start()

    def start(self) -> None:
        """Start torchrun on both nodes, as their target does."""
        endpoint = f"127.0.0.1:{free_port()}"
        options = ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--max-restarts=1")
        self.runs = [
            self._launch(
                self._job,
                1,
                rendezvous=(*options, f"--rdzv-conf=is_host={number == 0}"),
                TRAINWAY_MEMORY=str(memory),
                TRAINWAY_LOCAL_DISK=str(disk),
            )
            for number, (memory, disk) in enumerate(zip(self.memories, self.disks, strict=True))
        ]

    def events(self, kind: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.runs[0].events(kind)
        return events

    def parts(self, step: int, rank: int) -> list[Path]:
        """The copies of a rank's part of a step, on all nodes."""
        nodes = (*self.memories, *self.disks)
        return [part for node in nodes for part in node.glob(f"*/*/*/step-{step:08d}/rank-{rank:05d}.*")]

    def break_off_after(self, step: int, damage: Callable[[int], None]) -> None:
        """Does damage to what is newest in memory while all processes stand still, and kills them."""
        deadline = time.monotonic() + 300
        while not any(event["step"] >= step for event in self.events("memory_checkpoint")):
            assert all(run.process.poll() is None for run in self.runs), self.runs[0].process.communicate()[0]
            assert time.monotonic() < deadline, f"step {step} was not kept"
            time.sleep(0.01)
        workers = [pid for run in self.runs for pid in run.workers()]
        for pid in workers:
            # What helps a rank can have ended meanwhile.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        damage(self.events("memory_checkpoint")[-1]["step"])
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def lose_all_processes(self) -> None:
        """Kill torchrun on both nodes, whose ranks are dead."""
        for run in self.runs:
            run.process.kill()
            run.process.wait()

    def finish(self) -> str:
        return "".join(run.finish() for run in self.runs)

    def remove(self) -> None:
        for disk in self.disks:
            shutil.rmtree(disk, ignore_errors=True)


@pytest.fixture(scope="module")
def untouched(
    corpus_directory: Path,
    variant: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    torchrun: TorchrunServer,
) -> str:
    """The final loss of the job without interruption, as exact hexadecimal."""
    directory = tmp_path_factory.mktemp("untouched")
    document = job_of(corpus_directory, variant, directory / "checkpoints") | {"steps": STEPS}
    return final_loss(document, directory, torchrun)


@pytest.fixture
def nodes_of(launch: Any, job: dict[str, Any], tmp_path: Path) -> Iterator[Callable[..., Nodes]]:
    """Return a function that starts a job with these keys of `checkpoint`."""
    started: list[Nodes] = []

    def start(**checkpoint: Any) -> Nodes:
        started.append(Nodes(launch, job | {"steps": STEPS, "checkpoint": job["checkpoint"] | checkpoint}, tmp_path))
        return started[-1]

    yield start
    for nodes in started:
        nodes.remove()


@pytest.fixture
def nodes(nodes_of: Callable[..., Nodes]) -> Nodes:
    """A job whose memory is newer than its storage most of the time."""
    return nodes_of(every=5, memory_every=2)


@pytest.mark.exhaustive
def test_killed_processes_and_a_lost_node_cost_nothing_but_the_steps_since(
    nodes_of: Callable[..., Nodes], untouched: str
) -> None:
    # Storage has no checkpoint that is newer than the one in memory, whenever the processes are killed.
    nodes = nodes_of(every=1000, memory_every=2)
    kept: list[int] = []

    def lose_a_node(step: int) -> None:
        # Rank 1 may be further than the event of rank 0 says.
        whole = [each for each in range(step, STEPS + 1) if [len(nodes.parts(each, rank)) for rank in (0, 1)] == [2, 2]]
        assert whole, "every part is on both nodes"
        kept.append(whole[-1])
        assert all(len(list(memory.glob("*/*/*/step-*"))) <= 2 for memory in nodes.memories)
        shutil.rmtree(nodes.memories[1])

    nodes.break_off_after(8, lose_a_node)
    nodes.finish()
    (resumed,) = nodes.events("resumed")
    assert resumed["source"] == "memory"
    assert resumed["step"] >= kept[0]
    assert nodes.events("end")[-1]["loss_hex"] == untouched
    assert not any(list(memory.rglob("step-*")) for memory in nodes.memories if memory.exists())


@pytest.mark.exhaustive
def test_what_is_damaged_in_memory_is_skipped_for_the_newest_that_is_whole(nodes: Nodes, untouched: str) -> None:
    def flip_a_bit_in_both_copies(_: int) -> None:
        for step in range(STEPS + 1):
            for part in nodes.parts(step, rank=1):
                content = bytearray(part.read_bytes())
                if content:  # one that was only begun is damaged already
                    content[len(content) // 2] ^= 1
                part.write_bytes(content)

    nodes.break_off_after(8, flip_a_bit_in_both_copies)
    output = nodes.finish()
    (resumed,) = nodes.events("resumed")
    last = nodes.events("end")[-1]["step"]
    assert resumed["step"] % 5 == 0 or resumed["step"] == last, "what is in storage, also if the kill came last"
    assert resumed["source"].endswith(f"step-{resumed['step']:08d}")
    assert "what there is of rank 1 is damaged" in output
    assert nodes.events("end")[-1]["loss_hex"] == untouched


@pytest.mark.exhaustive
def test_nodes_that_lose_their_processes_and_their_memory_resume_from_their_disks(
    nodes_of: Callable[..., Nodes], untouched: str
) -> None:
    # Storage has no checkpoint that is newer than the one on the disks, whenever the processes are killed.
    nodes = nodes_of(every=1000, memory_every=2, local_disk=True)
    kept: list[int] = []
    nodes.break_off_after(8, kept.append)
    nodes.lose_all_processes()
    assert not any(memory.exists() for memory in nodes.memories), "memory has nothing to lose"
    # One node is replaced as well. Its parts come from the copies on the other disk.
    shutil.rmtree(nodes.disks[1])
    nodes.disks[1].mkdir()
    nodes.start()
    nodes.finish()
    (resumed,) = nodes.events("resumed")
    assert resumed["source"] == "disk"
    assert resumed["step"] >= kept[0]
    assert nodes.events("end")[-1]["loss_hex"] == untouched
    assert not any(list(disk.rglob("step-*")) for disk in nodes.disks)


def test_parts_go_to_the_next_node_and_come_back_to_ranks_that_have_changed_places(
    torchrun: TorchrunServer, tmp_path: Path
) -> None:
    program = Path(__file__).parent / "memory_of_nodes.py"
    assert "whole" in torchrun.run_program(program, str(tmp_path), ranks=4)
