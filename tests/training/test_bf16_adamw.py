"""Moments in bf16 learn as those in fp32 do, because they are rounded up as often as they should be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from training import config

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

BFLOAT16_STEP = 2**-7
"""From 1 to the next bf16 number."""


def optimizer_of(model: nn.Module, state: str, **changes: Any) -> torch.optim.Optimizer:
    from training.optim.optimizer import make_optimizer

    return make_optimizer(model, config.Optimizer.model_validate({"state": state} | changes))


def mlp() -> nn.Sequential:
    """The same weights each time."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128, bias=False), nn.Linear(128, 64, bias=False))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_is_rounded_to_its_neighbors_so_that_the_mean_is_right(sign: int) -> None:
    import torch

    from training.optim.bf16_adamw import rounded

    generator = torch.Generator().manual_seed(0)
    wide = torch.full((100_000,), sign * (1 + BFLOAT16_STEP / 4))
    found = rounded(wide, generator)
    assert found.dtype == torch.bfloat16
    assert found.abs().unique().tolist() == [1, 1 + BFLOAT16_STEP]
    # Four standard deviations of the mean of so many.
    assert found.float().mean().item() == pytest.approx(wide.mean().item(), abs=4 * BFLOAT16_STEP * 0.43 / 316)
    exact = torch.tensor([0.0, -0.0, 1.5, float("inf"), -float("inf"), 2.0**-126])
    assert torch.equal(rounded(exact, generator).float(), exact)


def test_the_losses_are_those_of_fp32_in_half_of_the_memory() -> None:
    from tests.training.test_optimizer import learn

    losses, moments = [], []
    for state in ("fp32", "bf16"):
        model = mlp()
        optimizer = optimizer_of(model, state)
        losses.append(learn(model, optimizer, 0, 100))
        moments.append([value for kept in optimizer.state.values() for name, value in kept.items() if name != "step"])
    whole, half = losses
    assert whole[-1] < 0.3 * whole[0]
    assert half == pytest.approx(whole, rel=0.01)
    assert half != whole
    whole_bytes, half_bytes = (sum(moment.nbytes for moment in kept) for kept in moments)
    assert half_bytes * 2 == whole_bytes


def second_moment_and_weight(state: str) -> tuple[Tensor, Tensor]:
    """After 3,000 gradients of one, of which the moment then is nearly one, and the weight has gone as many steps."""
    import torch
    from torch import nn

    model = nn.Linear(16, 16, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = optimizer_of(model, state, betas=(0.9, 0.999), weight_decay=0, learning_rate=0.001)
    for _ in range(3_000):
        model.weight.grad = torch.ones_like(model.weight)
        optimizer.step()
    moment: Tensor = optimizer.state[model.weight]["exp_avg_sq"]
    return moment.float(), model.weight.detach()


@pytest.mark.exhaustive
def test_a_second_moment_grows_by_less_than_bf16_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    from training.optim import bf16_adamw

    whole, weight = second_moment_and_weight("fp32")
    half, half_weight = second_moment_and_weight("bf16")
    assert half.mean().item() == pytest.approx(whole.mean().item(), rel=0.01)
    assert half_weight.mean().item() == pytest.approx(weight.mean().item(), rel=0.01)

    monkeypatch.setattr(bf16_adamw, "rounded", lambda wide, _: wide.bfloat16())
    nearest, nearest_weight = second_moment_and_weight("bf16")
    assert nearest.mean().item() == 0.25, "where the next change is less than half of the last bit"
    assert nearest_weight.mean().item() < 1.5 * weight.mean().item(), "steps that are too long"


@pytest.mark.usefixtures("one_rank")
def test_a_resumed_run_learns_to_the_last_bit_what_it_would_have_learned(tmp_path: Path) -> None:
    import torch

    from tests.training.test_optimizer import learn

    model, optimizer = sharded("bf16")
    learn(model, optimizer, 0, 5)
    save(model, optimizer, tmp_path)
    untouched = learn(model, optimizer, 5, 10)
    model, optimizer = loaded("bf16", tmp_path)
    assert {state["exp_avg"].dtype for state in optimizer.state.values()} == {torch.bfloat16}
    assert learn(model, optimizer, 5, 10) == untouched


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(("first", "then"), [("fp32", "bf16"), ("bf16", "fp32")])
def test_a_run_may_change_the_type_of_its_moments_on_the_way(first: str, then: str, tmp_path: Path) -> None:
    from tests.training.test_optimizer import learn

    model, optimizer = sharded(first)
    learn(model, optimizer, 0, 20)
    save(model, optimizer, tmp_path)
    untouched = learn(model, optimizer, 20, 30)
    assert learn(*loaded(then, tmp_path), 20, 30) == pytest.approx(untouched, rel=0.01)


def test_other_optimizers_keep_their_state_as_they_do() -> None:
    import torch

    from training.optim.bf16_adamw import BFloat16AdamW

    assert type(optimizer_of(mlp(), "fp32")) is torch.optim.AdamW
    assert type(optimizer_of(mlp(), "bf16")) is BFloat16AdamW


def sharded(state: str) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = mlp()
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    return model, optimizer_of(model, state)


def save(model: nn.Module, optimizer: torch.optim.Optimizer, directory: Path) -> None:
    from torch.distributed.checkpoint import state_dict_saver
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, moments = get_state_dict(model, optimizer)
    state_dict_saver.save({"model": weights, "optimizer": moments}, checkpoint_id=str(directory))


def loaded(state: str, directory: Path) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    from torch.distributed.checkpoint import state_dict_loader
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model, optimizer = sharded(state)
    weights, moments = get_state_dict(model, optimizer)
    state_dict_loader.load({"model": weights, "optimizer": moments}, checkpoint_id=str(directory))
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    return model, optimizer
