"""A program on several nodes hangs only if it works on none of them, and all of them hear of it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from tests.launch.test_silent_programs import METRIC, STEPS, Clock, Fixed
from tests.launch.test_start_program import Started
from trainway.launch.node import silence
from trainway.launch.node.exit_statuses import HUNG, STOPPED
from trainway.launch.node.run_state import NodeState
from trainway.launch.node.silence import Silence

WAITS = "import threading\ndef stuck(): threading.Event().wait()\n"


class Nodes:
    """Two nodes of a program that has said two steps, with their common clock."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, *, second_works: bool) -> None:
        self.clock = Clock(silence, monkeypatch)
        states = [NodeState(1, 0.0, leads=rank == 0) for rank in range(2)]
        for step in (1, 2):
            states[0].take({"step": step})
        self.signs = Fixed(works=False), Fixed(works=second_works)
        self.silences = [
            Silence(600, state, directory / "hang", rank, True, partial(self.signs.__getitem__, rank))
            for rank, state in enumerate(states)
        ]
        self.seconds = 0

    def wait(self, seconds: int) -> dict[int, int]:
        """Let seconds pass, or fewer until both nodes hear of a hang. Return the second in which each one does."""
        heard: dict[int, int] = {}
        for _ in range(seconds):
            self.clock.now += 1
            self.seconds += 1
            for rank in {0, 1} - set(heard):
                if self.silences[rank].look():
                    heard[rank] = self.seconds
            if len(heard) == 2:
                break
        return heard


def test_every_node_hears_of_a_hang_before_the_first_one_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the first node ends the others, for example by `srun --kill-on-bad-exit`."""
    heard = Nodes(tmp_path, monkeypatch, second_works=False).wait(700)
    assert 600 <= heard[1] < heard[0]


def test_a_program_that_works_on_another_node_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example while the last rank alone writes a checkpoint."""
    nodes = Nodes(tmp_path, monkeypatch, second_works=True)
    assert nodes.wait(5000) == {}
    nodes.signs[1].works = False
    assert set(nodes.wait(700)) == {0, 1}


def test_a_node_ends_no_program_by_the_hang_of_an_earlier_attempt(tmp_path: Path) -> None:
    """Each node counts its attempts, and one that began later counts fewer than the first node."""
    told = tmp_path / "attempts/1/hang"
    told.parent.mkdir(parents=True)
    told.write_text("the program hangs: for 30 minutes\n")
    (tmp_path / "train.py").write_text(
        # Longer than between two looks at the file.
        "import time\nfor _ in range(8):\n    time.sleep(1)\n    print('works', flush=True)\n"
    )
    assert Started(
        tmp_path, "--hang=2", METRIC, "--", sys.executable, "train.py", TRAINWAY_NODE_RANK="1", TRAINWAY_NODES="2"
    ).ends() == (0, "")


def test_the_stacks_of_all_nodes_are_written(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{WAITS}{STEPS}stuck()\n")
    first, second = (
        Started(
            tmp_path, "--hang=2", METRIC, "--", sys.executable, "train.py", TRAINWAY_NODES="2", TRAINWAY_NODE_RANK=rank
        )
        for rank in "01"
    )
    status, said = first.ends()
    # As a launcher that ends all nodes when one has ended. It comes too late for a node that has heard of the hang.
    second.terminate()
    other_status, other_said = second.ends()
    assert status == HUNG and "in stuck" in said
    assert other_status in (HUNG, STOPPED) and "in stuck" in other_said
