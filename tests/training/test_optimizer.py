"""What the optimizer does with a gradient, and when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from training import config
from training.config.presets import PRESETS

if TYPE_CHECKING:
    import torch
    from torch import nn

SCHEDULE = config.Schedule(warmup_steps=10, minimum_ratio=0.1)


def test_the_learning_rate_rises_to_its_peak_and_falls_to_its_floor() -> None:
    from training.optim.optimizer import learning_rate

    rates = [learning_rate(step, 100, 1.0, SCHEDULE) for step in range(1, 101)]
    assert rates[0] == 0.1
    assert rates[9] == max(rates) == 1.0
    assert rates[-1] == pytest.approx(0.1)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[54] == pytest.approx(0.55), "half-way down the cosine"


def test_a_schedule_without_warm_up_starts_near_its_peak() -> None:
    from training.optim.optimizer import learning_rate

    assert learning_rate(1, 1000, 1.0, config.Schedule()) == pytest.approx(1.0, abs=1e-4)


def test_wsd_stays_at_its_peak_and_falls_in_its_last_steps() -> None:
    from training.optim.optimizer import learning_rate

    schedule = config.Schedule(shape="wsd", warmup_steps=10, decay_steps=20, minimum_ratio=0.1)
    rates = [learning_rate(step, 100, 1.0, schedule) for step in range(1, 101)]
    assert rates[4] == 0.5
    assert set(rates[9:80]) == {1.0}
    assert rates[84] == pytest.approx(0.1 + 0.9 * 0.5), "a quarter of the decay, whose square root is a half"
    assert rates[-1] == pytest.approx(0.1)
    assert rates[80:] == sorted(rates[80:], reverse=True)


@pytest.mark.parametrize(("steps", "warmup"), [(10, 9), (3, 0), (100, 95)])
def test_wsd_by_default_ends_at_its_floor_however_long_the_warm_up_is(steps: int, warmup: int) -> None:
    from training.optim.optimizer import learning_rate

    schedule = config.Schedule(shape="wsd", warmup_steps=warmup)
    rates = [learning_rate(step, steps, 1.0, schedule) for step in range(1, steps + 1)]
    assert rates[-1] == pytest.approx(0.1)
    assert rates[:warmup] == pytest.approx([step / warmup for step in range(1, warmup + 1)])


@pytest.mark.parametrize("preset", ["tiny", "8b"])
def test_norms_and_embeddings_are_not_decayed_and_everything_is_learned(preset: str) -> None:
    import torch

    from training.model.decoder import Decoder
    from training.optim.optimizer import make_optimizer

    with torch.device("meta"):
        model = Decoder(PRESETS[preset], 300)
    decayed, others = make_optimizer(model, config.Optimizer()).param_groups
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert decayed["weight_decay"] == 0.1
    assert others["weight_decay"] == 0.0
    assert all("norm" in names[id(p)] or "embed" in names[id(p)] for p in others["params"])
    assert all(names[id(p)].endswith(("_proj.weight", "lm_head.weight")) for p in decayed["params"])
    assert len(decayed["params"]) + len(others["params"]) == len(names)


def test_muon_has_the_matrices_of_the_layers_and_nothing_else() -> None:
    import torch

    from training.model.decoder import Decoder
    from training.optim.optimizer import make_optimizer

    with torch.device("meta"):
        model = Decoder(PRESETS["8b"], 300)
    optimizer = make_optimizer(model, config.Optimizer(name="muon"))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    matrices, *adamw = ({names[id(p)] for p in group["params"]} for group in optimizer.param_groups)
    assert all(name.startswith("layers.") and name.endswith("_proj.weight") for name in matrices)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.1, 0.0]
    assert {"lm_head.weight"} == adamw[0]
    assert matrices | adamw[0] | adamw[1] == set(names.values())


def learn(model: nn.Sequential, optimizer: torch.optim.Optimizer, first: int, last: int) -> list[float]:
    """The losses of some steps, each on samples of its own."""
    import torch

    from training.optim.optimizer import set_learning_rate

    losses = []
    for step in range(first, last):
        torch.manual_seed(step)
        samples = torch.randn(16, 64)
        loss = (model(samples) - samples.roll(1, 1)).square().mean()
        loss.backward()
        set_learning_rate(optimizer, 0.002)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def mlp() -> nn.Sequential:
    """The same weights each time; matrices large enough to be kept in 8 bits."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128, bias=False), nn.Linear(128, 64, bias=False))


@pytest.mark.usefixtures("without_kernels")
def test_8_bit_moments_learn_as_whole_ones_do_in_a_quarter_of_the_memory() -> None:
    import torch

    from training.optim.optimizer import make_optimizer

    losses, moments = [], []
    for name in ("adamw", "adamw-8bit"):
        model = mlp()
        optimizer = make_optimizer(model, config.Optimizer.model_validate({"name": name}))
        losses.append(learn(model, optimizer, 0, 30))
        moments.append(optimizer.state[next(model.parameters())]["exp_avg"])
    whole, quantized = losses
    assert whole[-1] < 0.7 * whole[0]
    assert quantized == pytest.approx(whole, rel=0.01)
    assert quantized != whole
    assert moments[1].codes.dtype == torch.uint8
    assert moments[1].codes.shape == moments[0].shape


@pytest.mark.usefixtures("without_kernels", "one_rank")
@pytest.mark.parametrize("name", ["adamw-8bit", "muon"])
def test_the_state_of_an_optimizer_comes_back_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from training.optim.optimizer import make_optimizer

    def fresh() -> tuple[nn.Sequential, torch.optim.Optimizer]:
        model = mlp()
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        return model, make_optimizer(model, config.Optimizer.model_validate({"name": name}))

    model, optimizer = fresh()
    learn(model, optimizer, 0, 5)
    weights, moments = get_state_dict(model, optimizer)
    state_dict_saver.save({"model": weights, "optimizer": moments}, checkpoint_id=str(tmp_path))
    untouched = learn(model, optimizer, 5, 10)

    model, optimizer = fresh()
    weights, moments = get_state_dict(model, optimizer)
    state_dict_loader.load({"model": weights, "optimizer": moments}, checkpoint_id=str(tmp_path))
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    assert learn(model, optimizer, 5, 10) == untouched


@pytest.mark.usefixtures("one_rank", "without_kernels")
@pytest.mark.parametrize("largest", [0.5, 1e9], ids=["clipped", "unclipped"])
@pytest.mark.parametrize(
    "settings", [{}, {"state": "bf16"}, {"name": "muon"}, {"name": "adamw-8bit"}], ids=lambda each: str(each or "adamw")
)
def test_each_optimizer_takes_the_gradient_that_clipping_leaves(settings: dict[str, str], largest: float) -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, distribute_tensor

    from training.optim.optimizer import make_optimizer
    from training.optim.optimizer import step as take_step
    from training.parallel.clipping import clipping_divisor, norm_of_gradients

    if settings.get("name") == "adamw-8bit":
        pytest.importorskip("torchao")
    scale, weights = 1024.0, []
    for divides in (False, True):
        model = mlp()
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        optimizer = make_optimizer(model, config.Optimizer.model_validate(settings))
        for number in (1, 2, 3):
            torch.manual_seed(number)
            # Later gradients are much shorter, so that the moments tell whether the first one was clipped.
            gradients = [torch.randn(parameter.shape) / number**4 for parameter in model.parameters()]
            norm = torch.stack([each.norm() for each in gradients]).norm()
            # AdamW's first step does not depend on the length of the gradient.
            factor = scale if divides else min(1.0, largest / (norm.item() + 1e-6))
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                assert isinstance(parameter, DTensor)
                parameter.grad = distribute_tensor(gradient * factor, parameter.device_mesh, parameter.placements)
            found = norm_of_gradients(model.parameters(), factor)
            torch.testing.assert_close(found, norm)
            divisor = clipping_divisor(found, largest, scale) if divides else None
            take_step(optimizer, number, torch.zeros(()), divisor)
        weights.append([weight.full_tensor() for weight in model.state_dict().values()])
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-5, atol=1e-5)


def test_an_optimizer_that_nobody_has_written_is_no_other_one() -> None:
    import torch

    from training.optim.optimizer import make_optimizer

    unknown = config.Optimizer.model_construct(**config.Optimizer().model_dump() | {"name": "lion"})
    with pytest.raises(AssertionError, match="lion"):
        make_optimizer(torch.nn.Linear(2, 2), unknown)
