"""The decoder is Llama 3: its size, its arithmetic, its positions, and weights that no layout changes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from training import config
from training.config.arithmetic import flop_per_token
from training.config.presets import PRESETS, RotaryScaling, shape_of

if TYPE_CHECKING:
    import torch

    from training.model.decoder import Decoder

TINY = PRESETS["tiny"]


def on_meta(preset: str, vocabulary: int) -> Decoder:
    import torch

    from training.model.decoder import Decoder

    with torch.device("meta"):
        return Decoder(PRESETS[preset], vocabulary)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        # The tensor sizes that Hugging Face shows for meta-llama/Meta-Llama-3-8B and meta-llama/Llama-3.2-1B.
        ("8b", 8_030_261_248),
        ("1b", 1_235_814_400),
        ("70b", 70_553_706_496),
    ],
)
def test_a_preset_has_the_parameters_of_the_published_model(preset: str, parameters: int) -> None:
    assert sum(parameter.numel() for parameter in on_meta(preset, 128_256).parameters()) == parameters


def test_the_parameters_have_hugging_face_s_names() -> None:
    names = {name for name, _ in on_meta("8b", 128_256).named_parameters()}
    assert {"embed_tokens.weight", "norm.weight", "lm_head.weight"} <= names
    assert {name.removeprefix("layers.31.") for name in names if name.startswith("layers.31.")} == {
        "input_layernorm.weight",
        "self_attn.q_proj.weight",
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.o_proj.weight",
        "post_attention_layernorm.weight",
        "mlp.gate_proj.weight",
        "mlp.up_proj.weight",
        "mlp.down_proj.weight",
    }


def test_the_flop_per_token_of_8b_at_8192_is_the_published_figure() -> None:
    model = on_meta("8b", 128_256)
    multiplied = sum(p.numel() for name, p in model.named_parameters() if not name.startswith("embed_tokens"))
    flop = flop_per_token(PRESETS["8b"], 128_256, 8192)
    assert flop == 6 * multiplied + 12 * 32 * 4096 * 8192
    assert flop == pytest.approx(57.91e9, rel=1e-4)
    assert flop_per_token(PRESETS["8b"], 128_256, 8192, causal=True) == pytest.approx(51.47e9, rel=1e-4)


@pytest.mark.parametrize("window", [1, 7, 64])
def test_the_causal_flop_are_those_of_the_pairs_in_the_window(window: int) -> None:
    shape, length = replace(TINY, sliding_window=window), 64
    pairs = sum(min(token + 1, window) for token in range(length))
    attention = flop_per_token(shape, 300, length, causal=True) - flop_per_token(shape, 300, 0)
    assert attention == pytest.approx(12 * TINY.layers * TINY.hidden * pairs / length, rel=0.02)


def test_the_peak_of_a_cpu_is_unknown() -> None:
    import torch

    from training.observe.flops import peak_flops

    assert peak_flops(torch.device("cpu"), "bf16") is None


def built(seed: int = 0) -> Decoder:
    from training.model.decoder import Decoder, initialize

    model = Decoder(TINY, 300)
    initialize(model, seed)
    return model


def test_a_logit_depends_on_no_later_token() -> None:
    import torch

    from training.model.decoder import rotary_cache

    model, rotary = built(), rotary_cache(TINY, 16)
    tokens = torch.randint(0, 300, (1, 16), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 10:] = (changed[0, 10:] + 1) % 300
    logits, other = model(tokens, rotary), model(changed, rotary)
    torch.testing.assert_close(logits[:, :10], other[:, :10])
    assert not torch.allclose(logits[:, 10], other[:, 10])


def test_attention_depends_on_the_distance_and_not_on_the_position() -> None:
    import torch

    from training.model.decoder import rotary_cache

    attention = built().get_submodule("layers.0.self_attn")
    hidden = torch.randn(1, 8, TINY.hidden, generator=torch.Generator().manual_seed(0))
    rotary = rotary_cache(TINY, 100)
    torch.testing.assert_close(
        attention(hidden, rotary[:, :8]), attention(hidden, rotary[:, 90:98]), atol=1e-5, rtol=1e-4
    )
    assert not torch.allclose(attention(hidden, rotary[:, :8]), attention(hidden, rotary[:, :16:2]), atol=1e-5)


def test_the_weights_depend_on_the_seed_and_a_parameter_s_name_only() -> None:
    import torch

    one, same, other = built(0), built(0), built(1)
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, same.state_dict()[name])
        assert torch.equal(weight, other.state_dict()[name]) == (weight.ndim == 1)
    first, second = (one.get_parameter(f"layers.{layer}.mlp.up_proj.weight") for layer in (0, 1))
    assert not torch.equal(first, second)


def test_405b_has_the_parameters_of_its_name() -> None:
    parameters = sum(parameter.numel() for parameter in on_meta("405b", 128_256).parameters())
    assert parameters == pytest.approx(405e9, rel=0.005)


def test_a_window_hides_what_is_further_back() -> None:
    import torch

    from training.model.decoder import Decoder, initialize, rotary_cache

    shape = replace(TINY, layers=1, sliding_window=4)
    model = Decoder(shape, 300)
    initialize(model, 0)
    tokens, rotary = torch.arange(16)[None], rotary_cache(shape, 16)
    changed = tokens.clone()
    changed[0, 6] = 200
    different = (model(tokens, rotary) != model(changed, rotary)).any(dim=-1)[0]
    assert different.nonzero().flatten().tolist() == [6, 7, 8, 9]


def test_documents_of_one_sample_do_not_see_each_other() -> None:
    import torch

    from training.model.decoder import rotary_cache

    model, tokens, rotary = built(), torch.arange(16)[None], rotary_cache(TINY, 16)
    documents = torch.tensor([[0, 6]])
    packed = model(tokens, rotary, documents=documents)
    torch.testing.assert_close(packed[:, :6], model(tokens[:, :6], rotary[:, :6]))
    # Positions count on through a sample; attention depends on their distances only.
    torch.testing.assert_close(packed[:, 6:], model(tokens[:, 6:], rotary[:, :10]), atol=1e-5, rtol=1e-4)


def test_the_frequencies_of_llama_3_1_slow_down_where_they_are_slow() -> None:
    import torch

    from training.model.decoder import rotary_cache

    shape = replace(PRESETS["8b"], rope_scaling=RotaryScaling(factor=8.0, original_length=8192))
    exponents = torch.arange(0, 128, 2) / 128
    frequencies = 500_000.0**-exponents
    expected = []
    for frequency in frequencies.tolist():
        # Written as the model's authors did, one frequency at a time.
        wavelength = 2 * math.pi / frequency
        smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
        if wavelength < 8192 / 4.0:
            expected.append(frequency)
        elif wavelength > 8192 / 1.0:
            expected.append(frequency / 8.0)
        else:
            expected.append((1 - smooth) * frequency / 8.0 + smooth * frequency)
    cosines, sines = rotary_cache(shape, 2)[:, 1]
    torch.testing.assert_close(torch.atan2(sines, cosines), torch.tensor(expected))


def test_the_loss_in_chunks_is_the_loss() -> None:
    import torch

    from training.model.decoder import rotary_cache

    model, tokens, rotary = built(), torch.arange(34).reshape(2, 17), rotary_cache(TINY, 16)
    losses, gradients = [], []
    for chunks in (1, 4):
        model.zero_grad()
        model.loss_chunks = chunks
        loss = model(tokens[:, :-1], rotary, tokens[:, 1:])
        loss.backward()
        losses.append(loss.item())
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-7, rtol=1e-5)


def test_the_loss_computes_the_logits_of_each_chunk_once() -> None:
    import torch

    from tests.training.torch_modes import Products
    from training.model.loss import cross_entropy, linear_cross_entropy

    hidden, weight = torch.randn(2, 16, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    targets = torch.zeros(2, 16, dtype=torch.long)
    with Products() as products:
        loss = linear_cross_entropy(hidden, weight, targets, 4)
        assert loss.item() == pytest.approx(cross_entropy(hidden @ weight.mT, targets).item())
        products.shapes.remove((32, 7))  # of the line above
        loss.backward()
    logits, of_hidden, of_weight = (8, 7), (8, 5), (7, 5)
    assert products.shapes == [logits, of_hidden, of_weight] * 4
    with torch.no_grad(), Products() as products:
        linear_cross_entropy(hidden, weight, targets, 4)
    assert products.shapes == [logits] * 4, "an evaluation computes no gradients"


# A compilation takes half a second.
@pytest.mark.parametrize(
    ("precision", "chunks", "compiled"),
    [
        ("float32", 1, False),
        ("float32", 4, False),
        ("bfloat16", 1, False),
        ("bfloat16", 4, False),
        ("float16", 1, False),
        ("float16", 4, False),
        ("float32", 1, True),
        ("bfloat16", 4, True),
        pytest.param("float32", 4, True, marks=pytest.mark.exhaustive),
        pytest.param("bfloat16", 1, True, marks=pytest.mark.exhaustive),
        pytest.param("float16", 1, True, marks=pytest.mark.exhaustive),
        pytest.param("float16", 4, True, marks=pytest.mark.exhaustive),
    ],
)
def test_the_gradients_of_the_loss_are_those_of_whole_logits(precision: str, chunks: int, compiled: bool) -> None:
    import torch

    from training.model.loss import cross_entropy, linear_cross_entropy, loss_of_chunk

    dtype: torch.dtype = getattr(torch, precision)
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(2, 64, 32, generator=generator), torch.randn(500, 32, generator=generator)
    targets = torch.randint(0, 500, (2, 64), generator=generator)
    function = torch.compile(loss_of_chunk, backend="aot_eager", fullgraph=True) if compiled else None
    scale = 2.0**16  # of fp16, in which the gradient of a token would be 0 without it
    exact = [each.to(dtype).float().requires_grad_() for each in (hidden, weight)]
    found = [each.to(dtype).requires_grad_() for each in (hidden, weight)]
    expected = cross_entropy(exact[0] @ exact[1].mT, targets)
    loss = linear_cross_entropy(found[0], found[1], targets, chunks, function)
    assert loss.dtype == torch.float32
    bits = {torch.float32: 23, torch.bfloat16: 7, torch.float16: 10}[dtype]
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6 if dtype == torch.float32 else 2.0**-bits / 10)
    (expected * scale).backward()
    (loss * scale).backward()
    for one, other in zip(found, exact, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert one.grad.dtype == dtype
        error = (one.grad.float() - other.grad).norm() / other.grad.norm()
        assert error < 4 * 2.0**-bits


@pytest.mark.parametrize("chunks", [1, 4])
def test_in_fp16_the_sum_of_the_tokens_may_be_larger_than_its_largest_number(chunks: int) -> None:
    """Every token has the gradient -0.5 * 16. Their sum is -131,072, and their mean -8."""
    import torch

    from training.model.loss import linear_cross_entropy

    hidden = torch.full((1, 16384, 4), 16.0, dtype=torch.float16)
    weight = torch.zeros(2, 4, dtype=torch.float16, requires_grad=True)
    linear_cross_entropy(hidden, weight, torch.zeros(1, 16384, dtype=torch.long), chunks).backward()
    assert weight.grad is not None
    assert weight.grad[0].tolist() == [-8.0] * 4


def test_a_variant_changes_only_what_it_names() -> None:
    assert shape_of("tiny", config.Variant()) == TINY
    scaling = {"factor": 8, "original_length": 64}
    changed = shape_of("tiny", config.Variant.model_validate({"tied": False, "rope_scaling": scaling}))
    assert changed == replace(TINY, tied=False, rope_scaling=RotaryScaling(8.0, 64))


@pytest.mark.usefixtures("one_rank")
def test_sharding_changes_neither_the_weights_nor_the_logits() -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor

    from training.model.decoder import Decoder, initialize, materialize, rotary_cache
    from training.parallel.fsdp import shard

    plain, sharded = built(), Decoder(TINY, 300).to("meta")
    shard(sharded, init_device_mesh("cpu", (1,)), "fp32")
    materialize(sharded, torch.device("cpu"))
    initialize(sharded, 0)
    for name, weight in sharded.state_dict().items():
        assert isinstance(weight, DTensor)
        assert torch.equal(weight.full_tensor(), plain.state_dict()[name])
    tokens, rotary = torch.arange(32).reshape(2, 16), rotary_cache(TINY, 16)
    torch.testing.assert_close(sharded(tokens, rotary), plain(tokens, rotary))


@pytest.mark.usefixtures("one_rank")
def test_bf16_is_close_to_fp32_and_its_weights_and_gradients_stay_fp32() -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule

    from training.model.decoder import rotary_cache
    from training.parallel.fsdp import shard

    plain, mixed = built(), built()
    shard(mixed, init_device_mesh("cpu", (1,)), "bf16")
    assert isinstance(mixed, FSDPModule)
    tokens, rotary = torch.arange(32).reshape(2, 16), rotary_cache(TINY, 16)
    logits = mixed(tokens, rotary)
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(logits.float(), plain(tokens, rotary), atol=0.05, rtol=0.05)
    logits.float().square().sum().backward()
    assert {parameter.dtype for parameter in mixed.parameters()} == {torch.float32}
    assert {parameter.grad.dtype for parameter in mixed.parameters() if parameter.grad is not None} == {torch.float32}
