"""Matrix products of the layers in float8, by torchao, which is only imported where a job asks for it.

Weights, activations and gradients are scaled as they come (dynamic scaling); what is kept between steps stays as it is
without float8. The output projection keeps the job's precision.
"""

import torch
from torch import nn

from training import config
from training.errors import UserError
from training.model import Decoder

BLOCK = 16
"""Rows and columns of weights are multiples of this, as `torch._scaled_mm` checks (PyTorch, native/cuda/Blas.cpp)."""


def check(settings: config.Float8, device: torch.device) -> None:
    """Raises UserError where the job asks for float8 and this machine cannot multiply it."""
    if settings.recipe == "none":
        return
    try:
        import torchao.float8  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"float8.recipe is {settings.recipe}, which needs torchao ({error}); "
            "install trainway[quantized], or set float8.recipe to none"
        ) from error
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 9):
        raise UserError(
            f"float8.recipe is {settings.recipe}, but {torch.cuda.get_device_name(device)} cannot multiply float8 "
            "(compute capability 8.9 and later can); set float8.recipe to none"
        )


def apply(model: Decoder, settings: config.Float8) -> None:
    """Replaces the linear layers inside the decoder's layers; no parameter gets another name."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    recipe = Float8LinearConfig.from_recipe_name(settings.recipe)
    if settings.all_gather:
        recipe = Float8LinearConfig(enable_fsdp_float8_all_gather=True)
    ends = {"0", str(model.shape.layers - 1)} if settings.keep_first_and_last else set()

    def multiplies_in_float8(module: nn.Module, _: str) -> bool:
        return isinstance(module, nn.Linear) and module.in_features % BLOCK == 0 and module.out_features % BLOCK == 0

    for number, layer in model.layers.items():
        if number not in ends:
            convert_to_float8_training(layer, config=recipe, module_filter_fn=multiplies_in_float8)


def after_step(model: nn.Module, settings: config.Float8) -> None:
    """Computes the scales of all weights in one reduction, which the next step's gathers would do one by one."""
    if settings.all_gather:
        from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

        precompute_float8_dynamic_scale_for_fsdp(model)
