"""Matrix products of the layers in float8, by torchao, which is only imported where a job asks for it.

Weights, activations and gradients are scaled as they come (dynamic scaling); what is kept between steps stays as it is
without float8. The output projection and a router of experts keep the job's precision.
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
"""What rows, columns and tokens are multiples of: as `torch._scaled_mm` checks (PyTorch, native/cuda/ScaledBlas.cpp),
or the numbers that share a scale."""

CAPABILITIES = {
    "tensorwise": ((8, 9), (100, 0)),
    "rowwise": ((8, 9), (100, 0)),
    # cuBLAS multiplies so on Hopper alone: `_check_deepseek_support` in ScaledBlas.cpp.
    "blockwise": ((9, 0), (10, 0)),
    # torchao's kernels are made for Blackwell with tensor memory, which a workstation's (12.0) does not have.
    "mxfp8": ((10, 0), (12, 0)),
}
"""The compute capabilities of the GPUs that multiply so: from the one on, before the other."""

MODULES = {
    "tensorwise": "torchao.float8",
    "rowwise": "torchao.float8",
    "blockwise": "torchao.prototype.blockwise_fp8_training.linear",
    "mxfp8": "torchao.prototype.moe_training.mxfp8_linear",
}
"""Where torchao 0.18 has it."""


def check(job: Job, layout: Layout, device: torch.device) -> None:
    """Raises UserError where the job asks for float8 and this machine cannot multiply it."""
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


def apply(model: Decoder, settings: config.Float8, tp: int = 1) -> None:
    """Replaces the linear layers inside the decoder's layers; no parameter gets another name.

    Those that blocks do not fit into, on each of `tp` ranks, keep the job's precision.
    """
    replace_linears(model, _replacement(settings), BLOCKS[settings.recipe] * tp, settings.keep_first_and_last)


def _replacement(settings: config.Float8) -> Replace:
    if settings.recipe == "mxfp8":
        return _mxfp8
    if settings.recipe == "blockwise":
        from torchao.prototype.blockwise_fp8_training.linear import Float8BlockwiseLinear

        from_float: Replace = Float8BlockwiseLinear.from_float
        return from_float
    from torchao.float8 import Float8LinearConfig
    from torchao.float8.float8_linear import Float8Linear

    recipe = Float8LinearConfig.from_recipe_name(settings.recipe)
    if settings.all_gather:
        recipe = Float8LinearConfig(enable_fsdp_float8_all_gather=True)
    if settings.recipe == "rowwise" and not torch.cuda.is_available():
        # PyTorch 2.11 has no such product for CPUs: they multiply the same numbers in the job's precision.
        recipe = replace(recipe, emulate=True)
    return partial(Float8Linear.from_float, config=recipe)


def _mxfp8(linear: nn.Linear) -> nn.Module:
    from torchao.prototype.moe_training.mxfp8_linear import MXFP8Linear
    from torchao.quantization.quantize_.common import KernelPreference

    # Where there is no GPU, the same numbers are multiplied in the job's precision.
    kernels = KernelPreference.AUTO if torch.cuda.is_available() else KernelPreference.EMULATED
    with torch.device("meta"):
        replaced: nn.Module = MXFP8Linear(
            linear.in_features, linear.out_features, bias=False, kernel_preference=kernels
        )
    replaced.weight = linear.weight
    return replaced


def after_step(model: nn.Module, settings: config.Float8) -> None:
    """Computes the scales of all weights in one reduction, which the next step's gathers would do one by one."""
    if settings.all_gather:
        from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

        precompute_float8_dynamic_scale_for_fsdp(model)
