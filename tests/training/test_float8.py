"""Products in float8 are what they say: every parameter's gradient, beside the same float8 in one process."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.representatives import chosen
from tests.training.test_layouts import UNTIED, differences
from tests.training.torchrun_server import TorchrunServer
from training import config
from training.config import Job, Layout
from training.config.presets import PRESETS
from training.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

pytestmark = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")

LAYOUTS: dict[str, dict[str, Any]] = {
    "tensorwise": {"float8": {"recipe": "tensorwise"}},
    "tensorwise, gathered in float8": {"float8": {"recipe": "tensorwise", "all_gather": True}},
    "tensorwise, PP": {
        "float8": {"recipe": "tensorwise"},
        "parallel": {"pp": 2, "pp_schedule": "interleaved"},
        **UNTIED,
    },
    "rowwise": {"float8": {"recipe": "rowwise"}},
    # A rank scales its own part of a row, but by a power of two, which changes no digit.
    "rowwise, TP": {"float8": {"recipe": "rowwise"}, "parallel": {"tp": 2}},
    "mxfp8": {"float8": {"recipe": "mxfp8"}},
    "mxfp8, selective AC": {"float8": {"recipe": "mxfp8"}, "memory": {"activation_checkpointing": "selective"}},
    "mxfp8, full AC with compile": {
        "float8": {"recipe": "mxfp8"},
        "memory": {"activation_checkpointing": "full"},
        "compile": "aot_eager",
    },
}
DIVIDED: dict[str, dict[str, Any]] = {
    "TP": {"float8": {"recipe": "tensorwise"}, "parallel": {"tp": 2}},
    "TP, gathered in float8, with compile": {
        "float8": {"recipe": "tensorwise", "all_gather": True},
        "parallel": {"tp": 2},
        "compile": "aot_eager",
    },
}


@pytest.fixture(scope="module")
def found(torchrun: TorchrunServer, request: pytest.FixtureRequest) -> dict[str, Any]:
    return differences(torchrun, 2, chosen(request, LAYOUTS | DIVIDED, "layout"), "float8_gradients.py")


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_ranks_have_the_gradients_of_one_process_in_the_same_float8(layout: str, found: dict[str, Any]) -> None:
    assert found[layout]["loss"] < 1e-6
    if layout.startswith("tensorwise"):
        # One scale covers the whole matrix. On some processors, a sum over two ranks differs in the last bit from the
        # sum of one process. float8 then rounds an element that lies between two values to the other one.
        assert found[layout]["same in the middle"] < 1e-4
        assert found[layout]["same"] < 0.06
    else:
        assert found[layout]["same"] < 2e-6


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS | DIVIDED)
def test_float8_rounds_and_does_nothing_else(layout: str, found: dict[str, Any]) -> None:
    # A number has 4 bits: an error of 2^-5 = 3 %, on both sides of a product. Much less would be another type.
    assert found[layout]["rounded in the middle"] > 0.03
    assert found[layout]["rounded"] < 0.2


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", DIVIDED)
def test_matrices_divided_by_tp_have_the_scales_of_whole_ones(layout: str, found: dict[str, Any]) -> None:
    assert found[layout]["loss"] < 1e-6
    # Sums in another order are rounded to another float8 number here and there, a step of 6 %. With scales of its own
    # each part would be rounded otherwise as a whole, and be as far off as float8 is from fp32: 0.1 in the middle.
    assert found[layout]["same in the middle"] < 0.01
    assert found[layout]["same"] < 0.06


def asking_for(recipe: str, **changes: Any) -> Job:
    from tests.training.layout_gradients import job_of

    return job_of({"precision": "bf16", "float8": {"recipe": recipe}, "batch": {"global": 8, "micro": 4}} | changes)


def layout_of(asked: Job) -> Layout:
    return asked.layout(1)


@pytest.mark.parametrize(
    ("capability", "can"),
    [
        ((8, 0), []),
        ((8, 9), ["tensorwise", "rowwise"]),
        ((9, 0), ["tensorwise", "rowwise", "blockwise"]),
        ((10, 0), ["tensorwise", "rowwise", "mxfp8"]),
        ((10, 3), ["tensorwise", "rowwise", "mxfp8"]),
        ((12, 0), ["tensorwise", "rowwise"]),
    ],
)
def test_a_gpu_that_cannot_multiply_so_is_refused_with_what_it_can(
    capability: tuple[int, int], can: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training.precision import float8

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA X1")
    monkeypatch.setitem(float8.MODULES, "blockwise", "torchao")  # which a machine without Triton has
    for recipe in float8.BLOCKS:
        asked = asking_for(recipe)
        if recipe in can:
            float8.check(asked, layout_of(asked), torch.device("cuda", 0))
            continue
        with pytest.raises(UserError) as caught:
            float8.check(asked, layout_of(asked), torch.device("cuda", 0))
        version = ".".join(map(str, capability))
        assert f"float8.recipe is {recipe}, but NVIDIA X1 (compute capability {version}) cannot" in str(caught.value)
        assert str(caught.value).endswith(f"set it to {' or '.join([*can, 'none'])}")


def test_blocks_without_a_gpu_are_refused() -> None:
    import torch

    from training.precision import float8

    asked = asking_for("blockwise")
    with pytest.raises(UserError, match=r"float8\.recipe is blockwise, whose kernels are written for GPUs"):
        float8.check(asked, layout_of(asked), torch.device("cpu"))
    for recipe in ("tensorwise", "rowwise", "mxfp8"):
        float8.check(asking_for(recipe), layout_of(asking_for(recipe)), torch.device("cpu"))


def test_tokens_that_do_not_fill_blocks_are_refused() -> None:
    import torch

    from training.precision import float8

    asked = asking_for("mxfp8", data={"train": "nowhere", "sequence_length": 20})
    with pytest.raises(UserError, match="blocks of 32, but a micro-batch has 80 tokens on a rank"):
        float8.check(asked, layout_of(asked), torch.device("cpu"))


def test_float8_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from training.precision import float8

    monkeypatch.setitem(sys.modules, "torchao.float8", None)
    with pytest.raises(UserError, match=r"float8.recipe is rowwise, which needs torchao .* install trainway"):
        float8.check(asking_for("rowwise"), layout_of(asking_for("rowwise")), torch.device("cpu"))
    float8.check(asking_for("none"), layout_of(asking_for("none")), torch.device("cpu"))


def test_matrices_that_blocks_do_not_fit_into_and_routers_keep_the_job_s_precision() -> None:
    import torch

    from training.model.decoder import Decoder
    from training.precision import float8

    def kinds(**changes: Any) -> dict[str, str]:
        shape = replace(PRESETS["tiny"], hidden=64, feed_forward=96, **changes)
        with torch.device("meta"):
            model = Decoder(shape, 64)
        names = [name for name, _ in model.named_parameters()]
        float8.apply(model, config.Float8(recipe="mxfp8", keep_first_and_last=True), torch.device("cpu"))
        assert [name for name, _ in model.named_parameters()] == names
        return {name: type(module).__name__ for name, module in model.named_modules()}

    plain = kinds()
    assert plain["layers.1.self_attn.k_proj"] == plain["layers.2.mlp.down_proj"] == "MXFP8Linear"
    assert plain["layers.0.mlp.down_proj"] == plain["layers.3.mlp.down_proj"] == "Linear"
    assert kinds(key_value_heads=1)["layers.1.self_attn.k_proj"] == "Linear", "16 columns"
    assert kinds(experts=32)["layers.1.mlp.router"] == "Linear"


@pytest.fixture
def blockwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchao's blockwise layers with its own formulas in PyTorch in the place of its kernels.

    The scaled product, which is PyTorch's, multiplies what the scales make of the numbers.
    """
    from torch.utils._triton import has_triton_package

    from training.precision import float8

    if has_triton_package():  # asked before there is a stand-in, because the answer is kept
        pytest.skip("there is Triton, whose kernels need a GPU")
    triton, language = ModuleType("triton"), ModuleType("triton.language")
    anything = {"autotune": lambda **_: lambda kernel: kernel, "jit": lambda kernel: kernel}
    vars(triton).update(anything, Config=lambda *_, **__: None, language=language)
    vars(language).update(constexpr=int)
    with monkeypatch.context() as importing:
        importing.setitem(sys.modules, "triton", triton)
        importing.setitem(sys.modules, "triton.language", language)
        linear = import_module(float8.MODULES["blockwise"])
    kernels = import_module("torchao.prototype.blockwise_fp8_training.kernels")
    rows, columns, blocks = (
        getattr(kernels, f"torch_blockwise_scale_{name}") for name in ("act_quant_lhs", "act_quant_rhs", "weight_quant")
    )

    def product(
        left: Tensor, right: Tensor, left_scale: Tensor, _: Any, right_scale: Tensor, kind: Any, out: torch.dtype
    ) -> Tensor:
        if kind == kernels.BLOCKWISE_128X128_SCALING_TYPE:
            right_scale = right_scale.repeat_interleave(128, 1)
        else:
            right_scale = right_scale.T
        wide = left.float() * left_scale.repeat_interleave(128, 1)
        return (wide @ (right.float() * right_scale.repeat_interleave(128, 0))).to(out)

    for name, value in {
        "is_sm_at_least_90": lambda: True,
        "triton_fp8_blockwise_act_quant_lhs": rows,
        "triton_fp8_blockwise_act_quant_rhs": columns,
        "triton_fp8_blockwise_act_quant_transposed_lhs": lambda x, size: rows(x.T.contiguous(), size),
        "triton_fp8_blockwise_weight_quant_rhs": lambda weight, block_size: blocks(weight, block_size),
        "triton_fp8_blockwise_weight_quant_transposed_rhs": lambda weight, block_size: blocks(
            weight.T.contiguous(), block_size
        ),
        "_scaled_mm": product,
    }.items():
        monkeypatch.setattr(linear, name, value)


@pytest.mark.usefixtures("blockwise", "one_rank")
def test_blockwise_products_round_and_do_nothing_else() -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    from tests.training.layout_gradients import gradient
    from training.model.decoder import Decoder, initialize, rotary_cache
    from training.parallel import fsdp
    from training.precision import float8

    shape = replace(PRESETS["tiny"], layers=2, feed_forward=256)
    tokens = torch.randint(0, 64, (2, 129), generator=torch.Generator().manual_seed(7))

    def step(recipe: str, precision: str) -> dict[str, Tensor]:
        model = Decoder(shape, 64)
        initialize(model, 0)
        if recipe != "none":
            float8.apply(model, config.Float8.model_validate({"recipe": recipe}), torch.device("cpu"))
            assert sum(type(module).__name__ == "Float8BlockwiseLinear" for module in model.modules()) == 2 * 5
        fsdp.shard(model, init_device_mesh("cpu", (1,)), precision)
        model(tokens[:, :-1], rotary_cache(shape, 128), tokens[:, 1:]).backward()
        return {name: gradient(parameter) for name, parameter in model.named_parameters()}

    expected, found = step("none", "fp32"), step("blockwise", "bf16")
    errors = sorted(((found[name] - right).norm() / right.norm()).item() for name, right in expected.items())
    assert errors[-1] < 0.2
    assert errors[len(errors) // 2] > 0.03


@pytest.mark.exhaustive
def test_a_run_may_change_its_precision_on_the_way(launch: Any, job: dict[str, Any], tmp_path: Path) -> None:
    def losses(name: str, *runs: dict[str, Any]) -> list[float]:
        checkpoint = {"location": str(tmp_path / f"{name}-checkpoints")}
        for number, changes in enumerate(runs, start=1):
            document = job | {"checkpoint": checkpoint, "precision": "bf16"} | changes
            run = launch(document, 2, "--until-step", str(4 * number // len(runs)), name=name)
            run.finish()
        return [event["loss"] for event in run.events("step")]

    gathered = {"float8": {"recipe": "tensorwise", "all_gather": True}}
    blocks = {"float8": {"recipe": "mxfp8"}, "optimizer": job["optimizer"] | {"state": "bf16"}}
    assert losses("changed", gathered, blocks) == pytest.approx(losses("plain", {}), rel=0.01)
