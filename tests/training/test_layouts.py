"""Every layout learns the same: the number of ranks decides how fast, not what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Learned = Callable[..., list[tuple[float, float]]]


@pytest.fixture
def learned(launch: Any, job: dict[str, Any], tmp_path: Path) -> Learned:
    """Runs four steps on some ranks and gives (loss, gradient norm) of each."""

    def run(processes: int, micro: int, **parallel: int) -> list[tuple[float, float]]:
        name = f"{processes}-ranks-{micro}-micro"
        layout = {
            "batch": {"global": 8, "micro": micro},
            "parallel": parallel,
            "checkpoint": {"location": str(tmp_path / f"{name}-checkpoints")},
        }
        started = launch(job | layout, processes, "--until-step", "4", name=name)
        started.finish()
        return [(event["loss"], event["grad_norm"]) for event in started.events("step")]

    return run


def test_two_ranks_that_accumulate_learn_what_one_rank_learns_at_once(learned: Learned) -> None:
    assert_same(learned(2, micro=1), learned(1, micro=8))


@pytest.mark.slow
def test_hsdp_of_two_by_two_learns_what_one_rank_learns(learned: Learned) -> None:
    assert_same(learned(4, micro=2, dp_shard=2, dp_replicate=2), learned(1, micro=8))


def assert_same(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> None:
    assert len(one) == len(other) == 4
    for (loss, norm), (other_loss, other_norm) in zip(one, other, strict=True):
        assert loss == pytest.approx(other_loss, rel=1e-6)
        assert norm == pytest.approx(other_norm, rel=1e-5)
