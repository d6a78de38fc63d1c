"""Experts compute what their definition says, are chosen evenly in time, and cost what a token uses."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from training.config.arithmetic import flop_per_token
from training.config.presets import PRESETS

if TYPE_CHECKING:
    from torch import Tensor

    from training.model.experts import MixtureOfExperts

SHAPE = replace(PRESETS["tiny"], layers=2, hidden=32, feed_forward=48, experts=4, experts_per_token=2)


def mixture() -> MixtureOfExperts:
    from training.model.decoder import Decoder, initialize
    from training.model.experts import MixtureOfExperts

    model = Decoder(SHAPE, 64)
    initialize(model, 0)
    module = model.get_submodule("layers.0.mlp")
    assert isinstance(module, MixtureOfExperts)
    return module


def one_by_one(module: MixtureOfExperts, token: Tensor) -> Tensor:
    """What a token becomes, by the definition."""
    import torch
    import torch.nn.functional as F

    shares = F.softmax(module.router(token), dim=-1)
    best = sorted(range(4), key=lambda expert: -(shares[expert] + module.bias[expert]).item())[:2]
    experts, total = module.experts, sum(shares[expert] for expert in best)
    result = torch.zeros_like(token)
    for expert in best:
        inner = F.silu(token @ experts.gate_proj[expert]) * (token @ experts.up_proj[expert])
        result = result + shares[expert] / total * (inner @ experts.down_proj[expert])
    return result


def test_a_token_is_the_sum_of_its_best_experts_by_their_shares() -> None:
    import torch

    module = mixture()
    module.bias.copy_(torch.tensor([0.0, 0.01, 0.0, -0.01]))
    hidden = torch.randn(2, 8, SHAPE.hidden, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([one_by_one(module, token) for token in hidden.flatten(0, 1)]).view_as(hidden)
    torch.testing.assert_close(module(hidden), expected)


def test_a_bias_changes_the_choice_and_not_the_shares() -> None:
    import torch

    module = mixture()
    hidden = torch.randn(1, 8, SHAPE.hidden, generator=torch.Generator().manual_seed(0))
    before = module(hidden)
    module.bias += 0.5  # the same for all
    torch.testing.assert_close(module(hidden), before)
    module.bias[2] += 10.0
    module.chosen.zero_()
    module(hidden)
    assert module.chosen[2] == 8, "every token"


def test_the_grouped_product_is_that_of_each_expert() -> None:
    import torch
    import torch.nn.functional as F

    from training.model.experts import Experts, swiglu

    if not hasattr(F, "grouped_mm"):
        pytest.skip("this PyTorch has no grouped_mm")
    generator = torch.Generator().manual_seed(0)
    experts, counts = Experts(SHAPE), torch.tensor([3, 0, 8, 5])
    for weight in experts.parameters():
        weight.data.normal_(0.0, 0.1, generator=generator)
    tokens = torch.randn(16, SHAPE.hidden, generator=generator, requires_grad=True)
    expected = experts(tokens, counts)
    expected.square().sum().backward()
    grouped = tokens.detach().bfloat16().requires_grad_()
    halves = [weight.detach().bfloat16().requires_grad_() for weight in experts.parameters()]
    found = swiglu(grouped, counts, *halves)
    found.square().sum().backward()
    torch.testing.assert_close(found.float(), expected, atol=0.02, rtol=0.05)
    exact: list[Tensor] = [tokens, *experts.parameters()]
    for half, right in zip([grouped, *halves], exact, strict=True):
        assert half.grad is not None
        assert right.grad is not None
        assert (half.grad.float() - right.grad).norm() < 0.02 * right.grad.norm()


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(
    ("divide", "waits"),
    [(None, []), ("training.parallel.expert_slices", []), ("training.parallel.expert", ["tolist"])],
)
def test_the_host_waits_once_for_experts_on_other_ranks_and_never_for_slices(
    divide: str | None, waits: list[str]
) -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    from tests.training.torch_modes import Waits

    module, hidden = mixture().bfloat16(), torch.randn(1, 8, SHAPE.hidden).bfloat16()
    expected = module(hidden)
    if divide:
        import_module(divide).parallelize(module, init_device_mesh("cpu", (1,), mesh_dim_names=("ep",)))
    with Waits() as waiting:
        found = module(hidden)
    assert torch.equal(found, expected)
    assert waiting.calls == waits


@pytest.mark.usefixtures("one_rank")
def test_an_expert_that_many_choose_is_chosen_less_and_evaluation_counts_for_nothing() -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    from training.model.experts import BIAS_STEP, balance

    mesh = init_device_mesh("cpu", (1, 1, 1, 1), mesh_dim_names=("pp", "dp_replicate", "fsdp", "tp"))
    module = mixture()
    hidden = torch.randn(4, 32, SHAPE.hidden, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        module(hidden)
    assert module.chosen.sum() == 0
    module.bias[0] = 0.03
    module(hidden)
    assert module.chosen.sum() == 4 * 32 * SHAPE.experts_per_token
    first = (module.chosen - module.chosen.mean()).abs().max()
    balance(module, mesh, torch.zeros(()))
    assert module.bias[0] == pytest.approx(0.03 - BIAS_STEP)
    for _ in range(60):
        module(hidden)
        uneven = (module.chosen - module.chosen.mean()).abs().max()
        balance(module, mesh, torch.zeros(()))
    assert uneven < first / 2


def test_a_token_costs_the_experts_that_it_goes_through() -> None:
    dense = replace(SHAPE, experts=0)
    more = flop_per_token(SHAPE, 64, 32) - flop_per_token(dense, 64, 32)
    assert more == 6 * SHAPE.layers * (3 * SHAPE.hidden * SHAPE.feed_forward + SHAPE.hidden * SHAPE.experts)


def test_8x1b_has_eight_feed_forwards_of_1b() -> None:
    import torch

    from training.model.decoder import Decoder

    with torch.device("meta"):
        sizes = {
            name: sum(parameter.numel() for parameter in Decoder(PRESETS[name], 128_256).parameters())
            for name in ("1b", "8x1b")
        }
    assert sizes["8x1b"] - sizes["1b"] == 16 * (7 * 3 * 2048 * 8192 + 2048 * 8)
