"""Linear layers of NVIDIA's Transformer Engine, with its float8 if the job uses it.

Written for version 2.20, and imported only if a job uses it. Scales are computed from the current numbers, so nothing
is kept between steps, and a checkpoint is the same as without it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from training import config
from training.config import Job
from training.errors import UserError
from training.model.decoder import Decoder
from training.precision.float8 import BLOCKS
from training.precision.linears import layers_of, replace_linears

RECIPES = {
    "tensorwise": ("Float8CurrentScaling", "is_fp8_available"),
    "blockwise": ("Float8BlockScaling", "is_fp8_block_scaling_available"),
    "mxfp8": ("MXFP8BlockScaling", "is_mxfp8_available"),
}
"""Recipe classes (transformer_engine.common.recipe), and functions that tell whether this GPU supports them."""


def check(job: Job, device: torch.device) -> None:
    """Raise a UserError if the job uses Transformer Engine and this machine does not support it."""
    if job.linear == "torch":
        return
    if device.type != "cuda":
        raise UserError(f"linear is {job.linear}, which needs a GPU, but there is none here; set linear to torch")
    try:
        import transformer_engine.pytorch as engine
    except (ImportError, OSError) as error:
        raise UserError(
            f"linear is {job.linear}, but it cannot be imported ({error}); build the image with "
            "`image: {add: [transformer-engine]}`, or set linear to torch"
        ) from error
    if job.float8.recipe != "none":
        available, reason = getattr(engine, RECIPES[job.float8.recipe][1])(return_reason=True)
        if not available:
            raise UserError(
                f"float8.recipe is {job.float8.recipe}, which Transformer Engine does not have on "
                f"{torch.cuda.get_device_name(device)}: {reason}; use another, or none"
            )


def apply(model: Decoder, settings: config.Float8) -> None:
    """Replace the linear layers inside the decoder's layers. Parameters keep their names."""
    import transformer_engine.pytorch as engine
    from transformer_engine.common import recipe as recipes

    # Its extra state would be in every checkpoint, although no recipe here uses it.
    stateless = {name: getattr(nn.Module, name) for name in ("get_extra_state", "set_extra_state")}
    kind = type("Linear", (engine.Linear,), stateless)

    def replace(linear: nn.Linear) -> nn.Module:
        replaced: nn.Module = kind(
            linear.in_features, linear.out_features, bias=False, params_dtype=linear.weight.dtype, device="meta"
        )
        replaced.weight = linear.weight
        return replaced

    if settings.recipe == "none":
        replace_linears(model, replace)
        return
    replace_linears(model, replace, BLOCKS[settings.recipe])
    recipe = getattr(recipes, RECIPES[settings.recipe][0])()
    for layer in layers_of(model, settings.keep_first_and_last):
        # Wrap a layer's forward pass, so that activation checkpointing recomputes it in the same precision.
        layer.forward = _in_float8(layer.forward, lambda: engine.autocast(enabled=True, recipe=recipe))


def _in_float8(forward: Callable[..., Tensor], autocast: Callable[[], Any]) -> Callable[..., Tensor]:
    def forward_in_float8(*inputs: Tensor | None) -> Tensor:
        with autocast():
            return forward(*inputs)

    return forward_in_float8
