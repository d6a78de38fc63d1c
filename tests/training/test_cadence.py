"""With `every: auto`, all ranks save after the same steps, which follow from the costs of saves and steps."""

from __future__ import annotations

import itertools
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.conftest import SMALL_VARIANT
from training.config import Checkpoint
from training.config.checkpoint_interval import choose_interval

if TYPE_CHECKING:
    from training.checkpoint.cadence import Cadence

STALL, WRITE, STEP, NODES = 2.0, 30.0, 5.0, 64
CHOSEN = choose_interval(STALL, WRITE, STEP, NODES, 3.79).steps
# A run that is interrupted every ten seconds has many checkpoints within a few steps.
PER_1000_NODE_DAYS = 1000 * 86_400 / 10
OFTEN = {"every": "auto", "interruptions_per_1000_node_days": PER_1000_NODE_DAYS}


def cadence_of(**settings: Any) -> Cadence:
    """Return a cadence that begins after step 100."""
    from training.checkpoint.cadence import Cadence

    return Cadence(Checkpoint.model_validate({"every": "auto", **settings}), begins_after=100, nodes=NODES)


def saved_steps(cadence: Cadence, until: int, stalls: list[float], write: float = WRITE) -> list[int]:
    """Take the steps after 100, with saves that stop training for `stalls` seconds. The last stall repeats."""
    import torch.distributed as dist

    saved = list[int]()
    for step in range(101, until + 1):
        if cadence.is_due(step):
            cadence.step_seconds = STEP
            cadence.begin_save(step)
            cadence.exchange(write, dist.group.WORLD)
            # The main thread takes the stall of a save after the thread that wrote it has exchanged the choice.
            cadence.take_stall(stalls[min(len(saved), len(stalls) - 1)])
            saved.append(step)
    return saved


@pytest.mark.usefixtures("one_rank")
def test_after_the_first_saves_the_interval_is_the_optimum_of_their_cost() -> None:
    from training.checkpoint.cadence import FIRST_STEPS

    cadence = cadence_of()
    # The first save costs twenty times as much, and does not count.
    saved = saved_steps(cadence, 1000, [20 * STALL, STALL])
    first = [100 + FIRST_STEPS * number for number in (1, 2, 3, 4)]
    assert saved == [*first, *range(first[-1] + CHOSEN, 1001, CHOSEN)]
    chosen = cadence.newly_adopted()
    assert chosen and (chosen.steps, chosen.stall_seconds, chosen.nodes) == (CHOSEN, STALL, NODES)
    assert cadence.newly_adopted() is None


@pytest.mark.usefixtures("one_rank")
def test_a_large_change_of_the_cost_changes_the_interval_and_a_small_one_does_not() -> None:
    cadence = cadence_of()
    saved_steps(cadence, 100 + 5 * CHOSEN, [STALL])
    little = saved_steps(cadence, 100 + 20 * CHOSEN, [1.2 * STALL])
    assert {after - before for before, after in itertools.pairwise(little[1:])} == {CHOSEN}
    more = saved_steps(cadence, 100 + 60 * CHOSEN, [4 * STALL])
    assert more[-1] - more[-2] == choose_interval(4 * STALL, WRITE, STEP, NODES, 3.79).steps


@pytest.mark.usefixtures("one_rank")
def test_the_first_saves_do_not_wait_for_writes_that_take_longer_than_their_interval() -> None:
    saved = saved_steps(cadence_of(), 400, [STALL], write=60 * STEP)
    # The second save is due before the time of a write is known.
    assert saved[:4] == [110, 120, 180, 240]


@pytest.mark.usefixtures("one_rank")
def test_steps_of_keep_every_are_also_saved() -> None:
    saved = saved_steps(cadence_of(keep_every=100), 1000, [STALL])
    assert {200, 300, 400, 500, 600, 700, 800, 900, 1000} <= set(saved)


@pytest.mark.exhaustive
def test_a_run_of_two_ranks_chooses_the_interval_from_the_cost_of_its_saves(launch: Any, job: dict[str, Any]) -> None:
    # The cost of a synchronous save is the time in its event.
    settings = job["checkpoint"] | OFTEN | {"async": False}
    run = launch(job | {"variant": SMALL_VARIANT, "steps": 60, "checkpoint": settings}, 2)
    output = run.finish()
    saves, choices = run.events("checkpoint"), run.events("checkpoint_interval")
    assert [save["step"] for save in saves[:3]] == [10, 20, 30]
    for save, following in itertools.pairwise(saves):
        assert following["step"] - save["step"] == save["every"] or following["step"] == 60
    # The first choice in force is from the second save, or from a later one if the costs of the saves differ much.
    costs = [median(save["seconds"] for save in saves[1:last]) for last in range(2, len(saves) + 1)]
    assert any(choices[0]["stall_seconds"] == pytest.approx(cost, rel=0.2) for cost in costs), costs
    for choice in choices:
        stall, write, step = (choice[f"{name}_seconds"] for name in ("stall", "write", "step"))
        chosen = choose_interval(stall, write, step, choice["nodes"], PER_1000_NODE_DAYS)
        assert (choice["steps"], choice["nodes"]) == (chosen.steps, 1)
        assert f"checkpoint interval: {chosen.sentence}\n" in output
        assert chosen.steps in [save["every"] for save in saves]


@pytest.mark.exhaustive
def test_a_resumed_run_ends_with_the_same_bits_as_a_run_with_a_fixed_interval(
    launch: Any, job: dict[str, Any], untouched: str
) -> None:
    job = job | {"checkpoint": job["checkpoint"] | OFTEN}
    launch(job, 2, "--until-step", "12").finish()
    run = launch(job, 2)
    run.finish()
    assert [event["resumed_from"] for event in run.events("start")] == [None, 12]
    assert [event["step"] for event in run.events("checkpoint")] == [10, 12, 16]
    assert run.events("end")[-1]["loss_hex"] == untouched
