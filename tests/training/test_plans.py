"""The plans of a save serve the next one, and a changed state is planned anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.checkpoints import IDENTITY, saver_of, tensors, trained
from tests.training.torchrun_server import TorchrunServer
from training.errors import StorageFailed, StorageFull

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

PROGRAM = Path(__file__).with_name("plans_of_ranks.py")


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of ranks of each global plan that is made."""
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

    made: list[int] = []
    make: Callable[..., Any] = DefaultSavePlanner.create_global_plan

    def counted(planner: DefaultSavePlanner, every: list[Any]) -> Any:
        made.append(len(every))
        return make(planner, every)

    monkeypatch.setattr(DefaultSavePlanner, "create_global_plan", counted)
    return made


def load(location: Path, step: int, like: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint, with the names, shapes, and data types of other tensors."""
    import torch
    from torch.distributed.checkpoint import state_dict_loader

    from training import checkpoint
    from training.checkpoint.stores import LoadPlanner, reader

    found = {"model": {name: torch.empty_like(tensor) for name, tensor in like.items()}}
    source = checkpoint.step_location(str(location), step)
    state_dict_loader.load(found, storage_reader=reader(source), planner=LoadPlanner())
    return found["model"]


@pytest.mark.usefixtures("one_rank")
def test_the_second_save_of_a_run_makes_no_global_plan(tmp_path: Path, planned: list[int]) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import Progress

    training, expected = trained(seed=0, steps=1), {}
    saver = saver_of(str(tmp_path), [])
    for step in (2, 4, 6):
        expected[step] = [tensor.clone() for tensor in tensors(*training)]
        saver.save(*training, Progress(step, 8 * step, float(step)), IDENTITY)
        saver.wait()
        for tensor in tensors(*training):
            tensor.add_(1)
    saver.close()
    assert planned == [1]
    for step in (4, 6):
        loaded = trained(seed=1, steps=0)
        assert checkpoint.load(str(tmp_path), step, *loaded, IDENTITY) == Progress(step, 8 * step, float(step))
        for one, other in zip(expected[step], tensors(*loaded), strict=True):
            assert torch.equal(one, other)


@pytest.mark.usefixtures("one_rank")
def test_a_plan_is_used_again_with_the_prefixes_of_s3(
    s3: str, planned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch.distributed.checkpoint import state_dict_loader

    from training import checkpoint
    from training.checkpoint import stored
    from training.checkpoint.plans import KeptPlans
    from training.checkpoint.stores import LoadPlanner, reader

    monkeypatch.setenv("TRAINWAY_CHECKPOINTS", json.dumps({"prefixes": 2}))
    kept, location = KeptPlans(), f"{s3}/checkpoints/x"
    weights = {"a": torch.arange(6.0)}
    for step in (1, 2):
        stored.save(location, step, {"model": {"a": weights["a"] * step}}, kept=kept)
    assert planned == [1]
    found = {"model": {"a": torch.empty(6)}}
    state_dict_loader.load(found, storage_reader=reader(checkpoint.step_location(location, 2)), planner=LoadPlanner())
    assert torch.equal(found["model"]["a"], 2 * weights["a"])


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("what", ["one more", "another shape", "another data type", "another name"])
def test_a_changed_state_is_planned_anew(what: str, tmp_path: Path, planned: list[int]) -> None:
    import torch

    from training.checkpoint import stored
    from training.checkpoint.plans import KeptPlans

    changed = {
        "one more": {"a": torch.arange(6.0) + 1, "b": torch.ones(2)},
        "another shape": {"a": torch.arange(5.0) + 1},
        "another data type": {"a": torch.arange(6, dtype=torch.float64) / 3},
        "another name": {"b": torch.ones(2)},
    }[what]
    kept, first = KeptPlans(), {"a": torch.arange(6.0)}
    for step, weights in enumerate((first, changed, changed, first)):
        stored.save(str(tmp_path), step, {"model": weights}, kept=kept)
        found = load(tmp_path, step, weights)
        assert all(torch.equal(found[name], tensor) for name, tensor in weights.items())
    assert planned == [1, 1, 1]


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("after", [0, 1])
def test_a_save_after_a_failed_one_is_complete(
    after: int, tmp_path: Path, planned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training.checkpoint import plans, stored
    from training.checkpoint.plans import KeptPlans

    kept, weights = KeptPlans(), {"a": torch.arange(6.0)}
    for step in range(after):
        stored.save(str(tmp_path), step, {"model": weights}, kept=kept)

    def full(*_: Any) -> None:
        raise StorageFull("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(plans, "check_space", full)
        with pytest.raises(StorageFailed):
            stored.save(str(tmp_path), 7, {"model": weights}, kept=kept)
    stored.save(str(tmp_path), 8, {"model": weights}, kept=kept)
    assert torch.equal(load(tmp_path, 8, weights)["a"], weights["a"])
    assert planned == [1, 1]


def test_all_ranks_plan_anew_when_the_state_of_one_has_changed(torchrun: TorchrunServer, tmp_path: Path) -> None:
    printed = torchrun.run_program(PROGRAM, str(tmp_path), ranks=3, timeout=1800)
    assert "planned 1 1 3 3 right" in printed, printed
