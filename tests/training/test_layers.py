"""What is done to layers one by one: computed again to save memory, compiled once for all, dealt out to stages."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import config
from training.config.presets import PRESETS

TINY = PRESETS["tiny"]
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def computed(memory: config.Memory) -> Counter[str]:
    """The operators of a forward and a backward pass."""
    import torch

    from tests.training.torch_modes import Counted
    from training.model.decoder import Decoder, initialize, rotary_cache
    from training.parallel import activation_checkpointing

    model = Decoder(TINY, 300)
    initialize(model, 0)
    if memory.activation_checkpointing != "none":
        activation_checkpointing.apply(model, memory)
    tokens = torch.arange(17)[None]
    with Counted() as counted:
        model(tokens[:, :-1], rotary_cache(TINY, 16), tokens[:, 1:]).backward()
    return counted.calls


def test_full_checkpointing_computes_everything_again_and_selective_what_is_cheap() -> None:
    plain = computed(config.Memory())
    full = computed(config.Memory(activation_checkpointing="full"))
    selective = computed(config.Memory(activation_checkpointing="selective"))
    every_second = computed(config.Memory(activation_checkpointing="full", checkpoint_every=2))
    assert (plain[ATTENTION], full[ATTENTION], selective[ATTENTION], every_second[ATTENTION]) == (4, 8, 4, 6)
    again = {name: calls["mm"] - plain["mm"] for name, calls in (("full", full), ("selective", selective))}
    assert again["full"] > again["selective"] > 0
    assert full["silu"] == selective["silu"] == 2 * plain["silu"]


def test_one_layer_is_compiled_for_all() -> None:
    import torch
    from torch._dynamo.testing import CompileCounter

    from training.model.decoder import Decoder, initialize, rotary_cache
    from training.parallel import compiler

    counter = CompileCounter()
    model = Decoder(TINY, 300)
    initialize(model, 0)
    tokens, rotary = torch.arange(16)[None], rotary_cache(TINY, 16)
    expected = model(tokens, rotary)
    torch._dynamo.reset()
    compiler.apply(model, counter)  # type: ignore[arg-type]  # a backend is a name or a function
    torch.testing.assert_close(model(tokens, rotary), expected)
    assert counter.frame_count == 1


@given(layers=st.integers(1, 130), stages=st.integers(1, 32))
def test_stages_take_all_layers_in_order_and_the_ends_no_more_than_others(layers: int, stages: int) -> None:
    from training.parallel import pipeline

    ends = pipeline.stage_ends(layers, stages)
    counts = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    assert len(counts) == stages
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1
    assert max(counts[0], counts[-1]) <= min(counts[1:-1], default=layers) or layers % stages == stages - 1


def test_the_stages_of_405b_are_those_of_llama_3() -> None:
    from training.parallel import pipeline

    # 126 layers on 16 ranks: 7 where embedding and output are, 8 elsewhere.
    assert pipeline.stage_ends(126, 16)[:2] == [7, 15]
    assert pipeline.stage_ends(126, 16)[-2:] == [119, 126]


def test_the_loss_scale_halves_after_an_overflow_and_doubles_after_many_steps() -> None:
    import torch

    from training.precision.loss_scale import INITIAL, LARGEST, initial_scale, next_scale

    assert initial_scale("bf16") == initial_scale("fp32") == 1.0

    def following(scale: float, step: int, *, overflowed: bool) -> float:
        return next_scale(torch.tensor(scale), step, torch.tensor(overflowed)).item()

    assert following(INITIAL, 17, overflowed=True) == INITIAL / 2
    assert following(INITIAL, 17, overflowed=False) == INITIAL
    assert following(INITIAL, 3000, overflowed=False) == 2 * INITIAL
    assert following(LARGEST, 3000, overflowed=False) == LARGEST
    assert following(1.0, 3000, overflowed=True) == 1.0


@pytest.mark.usefixtures("one_rank")
def test_the_norm_of_a_gradient_that_overflowed_says_so() -> None:
    import torch

    from training.parallel.clipping import clipping_divisor, norm_of_gradients
    from training.precision.loss_scale import INITIAL

    parameter = torch.nn.Parameter(torch.zeros(3))
    parameter.grad = torch.tensor([1.0, float("inf"), 0.0])
    assert not norm_of_gradients([parameter], INITIAL).isfinite()
    parameter.grad = torch.tensor([3.0, 0.0, 4.0]) * INITIAL
    norm = norm_of_gradients([parameter], INITIAL)
    assert norm.item() == pytest.approx(5.0)
    assert clipping_divisor(norm, 10.0, INITIAL).item() == INITIAL
    assert clipping_divisor(norm, 1.0, INITIAL).item() == pytest.approx(5 * INITIAL)
