"""Attention of documents and windows is that of a dense mask, without one, and exchanges while it computes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.test_layouts import differences
from tests.training.torchrun_server import TorchrunServer
from training.config.presets import PRESETS

if TYPE_CHECKING:
    from torch import Tensor

    from training.model.decoder import Decoder

BATCH, HEADS, GROUPS, LENGTH, WIDTH = 2, 4, 2, 300, 8
END_OF_TEXT = 3


def inputs(length: int = LENGTH) -> list[Tensor]:
    import torch

    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(BATCH, heads, length, WIDTH, generator=generator).requires_grad_()
        for heads in (HEADS, GROUPS, GROUPS)
    ]


def texts(length: int = LENGTH) -> Tensor:
    import torch

    tokens = torch.randint(0, 50, (BATCH, length), generator=torch.Generator().manual_seed(1))
    tokens[0, 0] = tokens[0, 5] = tokens[1, -1] = END_OF_TEXT
    return tokens


def by_mask(query: Tensor, key: Tensor, value: Tensor, tokens: Tensor | None, window: int | None) -> Tensor:
    import torch
    import torch.nn.functional as F

    length = query.shape[2]
    before = torch.arange(length)[:, None] - torch.arange(length)
    mask = ((before >= 0) & (before < (window or length)))[None]
    if tokens is not None:
        ends = (tokens == END_OF_TEXT).long()
        number = ends.cumsum(1) - ends
        mask = mask & (number[:, :, None] == number[:, None, :])
    return F.scaled_dot_product_attention(query, key, value, mask[:, None], enable_gqa=True)


@pytest.mark.parametrize("window", [None, 1, 7, 150, 400])
@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("first", [0, 100])
def test_attention_and_its_gradients_are_those_of_a_mask(first: int, documents: bool, window: int | None) -> None:
    import torch

    from training.data.documents import document_starts
    from training.model.attention import attend

    ours, theirs, last = inputs(), inputs(), 250
    starts = document_starts(texts(), END_OF_TEXT) if documents else None
    query, key, value = ours[0][:, :, first:last], ours[1][:, :, :last], ours[2][:, :, :last]
    found = attend(query, key, value, starts, window, first)
    expected = by_mask(theirs[0], theirs[1], theirs[2], texts() if documents else None, window)[:, :, first:last]
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)
    gradient = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    found.backward(gradient)
    expected.backward(gradient)
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


@given(st.lists(st.lists(st.sampled_from([END_OF_TEXT, 5]), min_size=12, max_size=12), min_size=1, max_size=4))
def test_a_document_begins_with_a_sample_and_after_each_end(samples: list[list[int]]) -> None:
    import torch

    from training.data.documents import document_starts

    starts = document_starts(torch.tensor(samples, dtype=torch.uint16), END_OF_TEXT)
    assert starts.shape[1] & (starts.shape[1] - 1) == 0, "a power of two"
    for sample, row in zip(samples, starts.tolist(), strict=True):
        begins = [0] + [at + 1 for at, token in enumerate(sample[:-1]) if token == END_OF_TEXT]
        assert row == begins + [12] * (len(row) - len(begins))


def largest(model: Decoder, length: int, documents: Tensor | None) -> int:
    """Return the most numbers that a tensor has among the arguments of all operators of a step."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from training.model.decoder import rotary_cache

    tokens = texts(length + 1)[:1]
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        model(tokens[:, :-1], rotary_cache(model.shape, length), tokens[:, 1:], documents).backward()
    shapes = [shape for event in recorded.events() for shape in event.input_shapes if isinstance(shape, list)]
    sizes = [torch.Size(shape).numel() for shape in shapes if all(isinstance(size, int) for size in shape)]
    return max(sizes)


# A window and masks of documents together have the masks of each.
@pytest.mark.parametrize(
    ("window", "documents"),
    [
        pytest.param(None, True, marks=pytest.mark.exhaustive),
        pytest.param(100, False, marks=pytest.mark.exhaustive),
        (100, True),
    ],
)
def test_no_tensor_of_a_step_has_as_many_numbers_as_pairs_of_tokens(window: int | None, documents: bool) -> None:
    from training.data.documents import document_starts
    from training.model.decoder import Decoder, initialize

    length = 2048
    starts = document_starts(texts(length)[:1], END_OF_TEXT) if documents else None
    model = Decoder(replace(PRESETS["tiny"], layers=1, sliding_window=window), 64)
    initialize(model, 0)
    assert length * model.shape.feed_forward <= largest(model, length, starts) < length * length


LONG, QUERIES = 2048, 512
"""Tokens of a sample, and the fewest of them whose scores a rank could have at once: of one chunk of `cp` 2."""


@pytest.mark.exhaustive
def test_no_rank_of_a_layout_has_as_many_numbers_as_pairs_of_its_tokens(torchrun: TorchrunServer) -> None:
    job: dict[str, Any] = {
        "model": "tiny",
        "variant": {"hidden": 32, "heads": 2, "key_value_heads": 2, "feed_forward": 64, "layers": 2, "tied": False},
        "data": {"train": "nowhere", "sequence_length": LONG, "mask_documents": True},
        "precision": "fp32",
        "batch": {"global": 2, "micro": 1},
        "steps": 1,
    }
    window = {**job, "variant": {**job["variant"], "sliding_window": 1000}}
    jobs = {
        "TP": {**window, "parallel": {"tp": 2}},
        "CP, gather": {**job, "parallel": {"cp": 2}},
        "CP, gather, window": {**window, "parallel": {"cp": 2}},
        "CP, all-to-all": {**window, "parallel": {"cp": 2, "cp_method": "all-to-all"}},
        "PP": {**window, "parallel": {"pp": 2}},
    }
    found = differences(torchrun, 2, jobs, "largest_tensors.py")
    for name, each in found.items():
        assert QUERIES * 64 <= each["numbers"] < QUERIES * LONG, name


def test_the_profile_would_show_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    from training.model.decoder import Decoder, initialize

    length = 512
    model = Decoder(replace(PRESETS["tiny"], layers=1), 64)
    initialize(model, 0)
    tokens = texts(length)[:1]
    for layer in model.layers.values():
        monkeypatch.setattr(
            layer.self_attn, "attend", lambda query, key, value, *_: by_mask(query, key, value, tokens, None)
        )
    assert largest(model, length, None) >= length * length


def test_one_long_document_and_a_window_cost_no_more_keys_than_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    from training.model.attention import attend
    from training.model.blockwise_attention import LONGEST_BLOCK

    seen: list[int] = []
    module = sys.modules["training.model.blockwise_attention"]
    scores = module._scores

    def noted(query: Tensor, key: Tensor, block: Any, window: int) -> Tensor:
        found = scores(query, key, block, window)
        seen.append(found.shape[-1])
        return found

    monkeypatch.setattr(module, "_scores", noted)
    query, key, value = inputs(1000)
    attend(query, key, value, window=10)
    assert max(seen) == LONGEST_BLOCK + 9
    assert sum(seen) <= BATCH * 1000 + 9 * len(seen)


@pytest.mark.parametrize("window", [None, 5])
def test_the_kernel_gets_the_ends_of_documents_and_the_keys_on_the_left(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training.model import attention
    from training.model.blockwise_attention import blockwise_attention

    varlen = pytest.importorskip("torch.nn.attention.varlen")
    called: list[Any] = []

    def kernel(query: Tensor, key: Tensor, value: Tensor, *others: Any, **options: Any) -> Tensor:
        called.append((others, options))
        query_ends, key_ends, _, _ = others
        return blockwise_attention(query, key, value, query_ends, key_ends, options["window_size"][0] + 1 or None)

    monkeypatch.setattr(attention, "_kernel_takes_groups", lambda: False)
    monkeypatch.setattr(varlen, "varlen_attn", kernel)
    query, key, value = (each.transpose(1, 2).flatten(0, 1) for each in inputs(8))
    ends = torch.tensor([0, 3, 3, 16], dtype=torch.int32)
    lengths = attention._Lengths(ends, 8)
    found = attention._by_kernel(query, key, value, lengths, lengths, window)
    torch.testing.assert_close(found, blockwise_attention(query, key, value, ends, ends, window))
    (_, _, longest_query, longest_key), options = called[0]
    assert (longest_query, longest_key) == (8, 8)
    assert options == {"window_size": (-1 if window is None else window - 1, 0)}


@pytest.mark.usefixtures("one_rank")
def test_half_of_the_heads_travels_while_the_other_half_attends() -> None:
    import torch
    import torch.distributed as dist

    from tests.training.torch_modes import Order
    from training.data.documents import document_starts
    from training.model.attention import attend
    from training.parallel.context import attend_gathered

    group = dist.group.WORLD
    assert group is not None
    documents = document_starts(texts(16), END_OF_TEXT)
    ours, alone = inputs(16), inputs(16)
    with Order() as order:
        found = attend_gathered(ours[0], ours[1], ours[2], documents, None, firsts=(0, 8), group=group)
        found.square().sum().backward()
    expected = attend(alone[0], alone[1], alone[2], documents)
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected)
    for one, other in zip(ours, alone, strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    forward = ["gather", "gather", "wait", "attend", "attend", "wait", "attend", "attend"]
    backward = ["differentiate", "differentiate", "scatter"] * 2 + ["wait", "wait"]
    assert order.calls == forward + backward


def test_the_first_kernel_is_the_fastest_on_the_gpu() -> None:
    from torch.nn.attention import SDPBackend

    from training.model import attention_kernels

    hopper, ampere, ada, blackwell, workstation = (9, 0), (8, 0), (8, 9), (10, 0), (12, 0)
    cudnn, flash = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
    first = {each: attention_kernels.backends(each)[0] for each in (hopper, ampere, ada, blackwell, workstation)}
    assert first == {hopper: cudnn, ampere: flash, ada: flash, blackwell: cudnn, workstation: flash}
    assert all(len(set(attention_kernels.backends(each))) == 4 for each in first), "each is a later choice"
    every, none = (lambda _: True), (lambda _: False)
    newer = attention_kernels.newer_flash_attention
    assert [newer(each, every) for each in (hopper, ampere, blackwell, workstation)] == ["FA3", None, "FA4", None]
    assert newer(hopper, lambda module: module == "flash_attn.cute") == "FA4"
    assert newer(hopper, none) is None
    assert newer(hopper) is None, "the tests' environment has no FlashAttention"


def test_the_order_of_kernels_holds_inside_the_context_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.nn.attention import SDPBackend

    from training.model import attention_kernels

    activated: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (10, 0))
    monkeypatch.setattr(torch.nn.attention, "activate_flash_attention_impl", activated.append)
    monkeypatch.setattr(attention_kernels, "_installed", lambda _: True)
    before = torch._C._get_sdp_priority_order()
    with attention_kernels.chosen_kernels(torch.device("cuda")):
        assert torch._C._get_sdp_priority_order()[0] == SDPBackend.CUDNN_ATTENTION.value
    assert torch._C._get_sdp_priority_order() == before
    assert activated == ["FA4"]
