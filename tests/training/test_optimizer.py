"""What the optimizer does with a gradient, and when."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from training import config
from training.model import Decoder, initialise
from training.optimizer import clip_gradients, learning_rate, make_optimizer
from training.parallel import shard
from training.presets import PRESETS

SCHEDULE = config.Schedule(warmup_steps=10, minimum_ratio=0.1)


def test_the_learning_rate_rises_to_its_peak_and_falls_to_its_floor() -> None:
    rates = [learning_rate(step, 100, 1.0, SCHEDULE) for step in range(1, 101)]
    assert rates[0] == 0.1
    assert rates[9] == max(rates) == 1.0
    assert rates[-1] == pytest.approx(0.1)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[54] == pytest.approx(0.55), "half-way down the cosine"


def test_a_schedule_without_warm_up_starts_near_its_peak() -> None:
    assert learning_rate(1, 1000, 1.0, config.Schedule()) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("preset", ["tiny", "8b"])
def test_norms_and_embeddings_are_not_decayed_and_everything_is_learned(preset: str) -> None:
    with torch.device("meta"):
        model = Decoder(PRESETS[preset], 300)
    decayed, others = make_optimizer(model, config.Optimizer()).param_groups
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert decayed["weight_decay"] == 0.1
    assert others["weight_decay"] == 0.0
    assert all("norm" in names[id(p)] or "embed" in names[id(p)] for p in others["params"])
    assert all(names[id(p)].endswith(("_proj.weight", "lm_head.weight")) for p in decayed["params"])
    assert len(decayed["params"]) + len(others["params"]) == len(names)


@pytest.mark.usefixtures("one_rank")
def test_a_long_gradient_is_scaled_to_the_largest_norm_and_a_short_one_is_left() -> None:
    model = Decoder(PRESETS["tiny"], 300)
    initialise(model, 0)
    shard(model, init_device_mesh("cpu", (1,)), "fp32")
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    elements = sum(parameter.numel() for parameter in model.parameters())
    assert clip_gradients(model, 1.0).item() == pytest.approx(elements**0.5, rel=1e-5)
    assert clip_gradients(model, 2.0).item() == pytest.approx(1.0, rel=1e-4)
    assert clip_gradients(model, 2.0).item() == pytest.approx(1.0, rel=1e-4)
