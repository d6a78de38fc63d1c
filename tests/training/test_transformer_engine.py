"""Transformer Engine's linear layers in the place of PyTorch's, shown with a stand-in that has their signature.

The stand-in multiplies with PyTorch. What it cannot show is what only a GPU can: see docs/unproven.md.
"""

# ruff: noqa: ARG005 (the arguments are Transformer Engine's)

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from training import config
from training.config import Job
from training.errors import UserError

if TYPE_CHECKING:
    from training.model.decoder import Decoder

RECIPES = ("tensorwise", "blockwise", "mxfp8")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The stand-in under Transformer Engine's name, on a Hopper GPU."""
    import torch

    from tests.training.transformer_engine_stand_in import Autocast, Linear

    package, pytorch = ModuleType("transformer_engine"), ModuleType("transformer_engine.pytorch")
    common, recipe = ModuleType("transformer_engine.common"), ModuleType("transformer_engine.common.recipe")
    vars(package).update(pytorch=pytorch, common=common)
    vars(common).update(recipe=recipe)
    recipes = ("Float8CurrentScaling", "Float8BlockScaling", "MXFP8BlockScaling")
    vars(recipe).update({name: type(name, (), {}) for name in recipes})
    vars(pytorch).update(
        Linear=Linear,
        autocast=Autocast,
        is_fp8_available=lambda return_reason: (True, ""),
        is_fp8_block_scaling_available=lambda return_reason: (True, ""),
        is_mxfp8_available=lambda return_reason: (False, "Device compute capability 10.x or higher required."),
    )
    for module in (package, pytorch, common, recipe):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    Linear.recipes.clear()
    yield pytorch
    assert not Autocast.active
    torch._dynamo.reset()


def job(**changes: Any) -> Job:
    from tests.training.layout_gradients import job_of

    return job_of({"linear": "transformer-engine"} | changes)


def untied() -> Decoder:
    import torch

    from tests.training.layout_gradients import VOCABULARY, small
    from training.model.decoder import Decoder

    with torch.device("meta"):
        return Decoder(small(job(variant={"tied": False})), VOCABULARY)


def swapped(recipe: config.Float8) -> Decoder:
    from training.precision import transformer_engine

    model = untied()
    transformer_engine.apply(model, recipe)
    return model


@pytest.mark.usefixtures("engine", "one_rank")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        pytest.param({"memory": {"activation_checkpointing": "full"}}, id="checkpointed"),
        # Compilation takes most of the time of this file.
        pytest.param({"compile": "aot_eager"}, id="compiled", marks=pytest.mark.exhaustive),
        pytest.param({"memory": {"offload": True}}, id="offloaded"),
    ],
)
def test_the_gradients_are_those_of_linear_layers(changes: dict[str, Any]) -> None:
    from tests.training.layout_gradients import measured, reference
    from tests.training.transformer_engine_stand_in import Linear

    loss, expected = reference(job())
    found_loss, _, found = measured(job(**changes))
    assert Linear.recipes, "they are in use"
    assert found_loss == pytest.approx(loss, rel=1e-6)
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        assert ((found[name] - right).norm() / right.norm()).item() < 2e-6, name


@pytest.mark.usefixtures("engine", "one_rank")
def test_they_get_weights_of_the_type_that_is_computed_in() -> None:
    from tests.training.layout_gradients import measured, reference

    loss, _ = reference(job())
    found, _, _ = measured(job(precision="bf16"))
    assert found == pytest.approx(loss, rel=2e-3)
    assert found != loss


@pytest.mark.usefixtures("engine")
def test_a_checkpoint_has_the_same_names_as_without() -> None:
    from torch import nn

    from tests.training.transformer_engine_stand_in import Linear

    model = swapped(config.Float8())
    assert isinstance(model.get_submodule("layers.0.mlp.gate_proj"), Linear)
    assert isinstance(model.lm_head, nn.Linear), "the output projection keeps the job's precision"
    found, expected = ({name: value.shape for name, value in m.state_dict().items()} for m in (model, untied()))
    assert found == expected


@pytest.mark.usefixtures("engine", "one_rank")
@pytest.mark.parametrize("memory", [{}, {"activation_checkpointing": "full"}], ids=["plain", "checkpointed"])
def test_a_recipe_is_around_every_pass_of_a_layer(memory: dict[str, Any]) -> None:
    from tests.training.layout_gradients import measured
    from tests.training.transformer_engine_stand_in import Linear

    float8 = {"recipe": "tensorwise", "keep_first_and_last": True}
    measured(job(precision="bf16", float8=float8, memory=memory))
    # Of four layers with seven products each the first and the last keep bf16; eight samples go through, twice where
    # the backward pass computes them again.
    passes = 8 * (2 if memory else 1)
    assert Linear.recipes.count("Float8CurrentScaling") == 2 * 7 * passes
    assert Linear.recipes.count(None) == 2 * 7 * passes


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_that_a_job_may_ask_for_has_a_class_and_a_check(recipe: str, engine: ModuleType) -> None:
    from training.precision import transformer_engine

    asked = job(precision="bf16", float8={"recipe": recipe})
    swapped(asked.float8)
    assert set(RECIPES) == set(transformer_engine.RECIPES)
    available, _ = getattr(engine, transformer_engine.RECIPES[recipe][1])(return_reason=True)
    assert available == (recipe != "mxfp8")


@pytest.mark.usefixtures("engine")
def test_a_recipe_that_the_gpu_lacks_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from training.precision import transformer_engine

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100")
    transformer_engine.check(job(precision="bf16", float8={"recipe": "blockwise"}), torch.device("cuda", 0))
    with pytest.raises(UserError, match=r"float8.recipe is mxfp8, .* NVIDIA H100: Device compute capability 10"):
        transformer_engine.check(job(precision="bf16", float8={"recipe": "mxfp8"}), torch.device("cuda", 0))


def test_where_it_cannot_run_a_job_that_asks_for_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tests.training.layout_gradients import job_of
    from training.precision import transformer_engine

    transformer_engine.check(job_of({}), torch.device("cpu"))
    with pytest.raises(UserError, match="linear is transformer-engine, which needs a GPU"):
        transformer_engine.check(job(), torch.device("cpu"))
    monkeypatch.setitem(sys.modules, "transformer_engine", None)
    with pytest.raises(UserError, match=r"linear is transformer-engine, but it cannot be imported .*image: \{add:"):
        transformer_engine.check(job(), torch.device("cuda", 0))
