"""Matrix products of the layers in float8, by torchao, which is imported only if a job uses it.

Weights, activations, and gradients are scaled as they occur (dynamic scaling). What is kept between steps is the same
as without float8. The output projection and the router of experts keep the job's precision.
"""

from dataclasses import replace
from functools import partial
from importlib import import_module

import torch
from torch import nn

from training import config
from training.config import Job, Layout
from training.errors import UserError
from training.model.decoder import Decoder
from training.precision.linears import Replace, replace_linears

BLOCKS = {"tensorwise": 16, "rowwise": 16, "blockwise": 128, "mxfp8": 32}
"""The number of which rows, columns, and tokens must be multiples.

`torch._scaled_mm` checks it (PyTorch, native/cuda/ScaledBlas.cpp), or as many numbers share a scale.
"""

CAPABILITIES = {
    "tensorwise": ((8, 9), (100, 0)),
    "rowwise": ((8, 9), (100, 0)),
    # cuBLAS supports these products only on Hopper: `_check_deepseek_support` in ScaledBlas.cpp.
    "blockwise": ((9, 0), (10, 0)),
    # torchao's kernels are made for Blackwell with tensor memory, which workstation GPUs (12.0) do not have.
    "mxfp8": ((10, 0), (12, 0)),
}
"""Compute capabilities of the GPUs that support the recipe: from the first, below the second."""

MODULES = {
    "tensorwise": "torchao.float8",
    "rowwise": "torchao.float8",
    "blockwise": "torchao.prototype.blockwise_fp8_training.linear",
    "mxfp8": "torchao.prototype.moe_training.mxfp8_linear",
}
"""Module of torchao 0.18 that has it."""


def check(job: Job, layout: Layout, device: torch.device) -> None:
    """Raise a UserError if the job uses float8 and this machine does not support it."""
    recipe = job.float8.recipe
    if recipe == "none":
        return
    tokens = job.batch.micro * job.data.sequence_length // layout.cp
    if tokens % BLOCKS[recipe]:
        raise UserError(
            f"float8.recipe is {recipe}, which multiplies blocks of {BLOCKS[recipe]}, but a micro-batch has {tokens} "
            f"tokens on a rank (batch.micro x data.sequence_length / parallel.cp); use a multiple of {BLOCKS[recipe]}"
        )
    if job.linear == "transformer-engine":
        return
    if recipe == "blockwise" and device.type != "cuda":
        raise UserError(
            "float8.recipe is blockwise, whose kernels are written for GPUs, but there is none here; use tensorwise "
            "or rowwise to try a job without one"
        )
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        can = [name for name, (first, last) in CAPABILITIES.items() if first <= capability < last]
        if recipe not in can:
            raise UserError(
                f"float8.recipe is {recipe}, but {torch.cuda.get_device_name(device)} (compute capability "
                f"{capability[0]}.{capability[1]}) cannot multiply so; set it to {' or '.join([*can, 'none'])}"
            )
    try:
        import_module(MODULES[recipe])
    except ImportError as error:
        raise UserError(
            f"float8.recipe is {recipe}, which needs torchao ({error}); "
            "install trainway[quantized], or set float8.recipe to none"
        ) from error


def apply(model: Decoder, settings: config.Float8, device: torch.device, tp: int = 1) -> None:
    """Replace the linear layers inside the decoder's layers, for a device. Parameters keep their names.

    Layers that do not divide into blocks, on each of `tp` ranks, keep the job's precision.
    """
    replace_linears(model, _replacement(settings, device), BLOCKS[settings.recipe] * tp, settings.keep_first_and_last)


def _replacement(settings: config.Float8, device: torch.device) -> Replace:
    if settings.recipe == "mxfp8":
        return partial(_mxfp8, device=device)
    if settings.recipe == "blockwise":
        from torchao.prototype.blockwise_fp8_training.linear import Float8BlockwiseLinear

        from_float: Replace = Float8BlockwiseLinear.from_float
        return from_float
    from torchao.float8 import Float8LinearConfig
    from torchao.float8.float8_linear import Float8Linear

    recipe = Float8LinearConfig.from_recipe_name(settings.recipe)
    if settings.all_gather:
        recipe = Float8LinearConfig(enable_fsdp_float8_all_gather=True)
    if settings.recipe == "rowwise" and device.type != "cuda":
        # PyTorch 2.11 has no such product for CPUs. They multiply the same numbers in the job's precision.
        recipe = replace(recipe, emulate=True)
    return partial(Float8Linear.from_float, config=recipe)


def _mxfp8(linear: nn.Linear, device: torch.device) -> nn.Module:
    from torchao.prototype.moe_training.mxfp8_linear import MXFP8Linear
    from torchao.quantization.quantize_.common import KernelPreference

    # Without a GPU, the same numbers are multiplied in the job's precision.
    kernels = KernelPreference.AUTO if device.type == "cuda" else KernelPreference.EMULATED
    with torch.device("meta"):
        replaced: nn.Module = MXFP8Linear(
            linear.in_features, linear.out_features, bias=False, kernel_preference=kernels
        )
    replaced.weight = linear.weight
    return replaced


def after_step(model: nn.Module, settings: config.Float8) -> None:
    """Compute the scales of all weights in one reduction. Otherwise the next step's gathers compute them one by one."""
    if settings.all_gather:
        from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

        precompute_float8_dynamic_scale_for_fsdp(model)
