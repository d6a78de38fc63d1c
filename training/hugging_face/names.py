"""Map our tensors to those of transformers: names and layout of the values.

Most have the same name and the same values: `training/model/decoder.py` uses Llama's rotary convention. We store the
experts in one tensor, transformers in many. ERNIE rotates neighboring columns of a head, we rotate its halves.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from training.config.presets import Shape
from training.hugging_face.configuration import ModelFamily

CORRECTION_BIAS = "moe_statics.e_score_correction_bias"


@dataclass(frozen=True)
class Renaming:
    """One tensor of ours as tensors of transformers."""

    names: list[str]
    there: Callable[[Tensor], list[Tensor]]
    """Convert ours to theirs, in the order of `names`."""
    here: Callable[[list[Tensor]], Tensor]
    """Convert theirs to ours."""


def renaming(family: ModelFamily, shape: Shape, name: str) -> Renaming:
    """Return the renaming of the entry `name` of our state dict."""
    if name == "lm_head.weight":
        return _same(name)
    before, _, part = name.partition(".mlp.")
    if shape.experts and part:
        return _of_experts(family, shape, f"model.{before}", part)
    if family == "ernie4_5_moe" and name.endswith(("q_proj.weight", "k_proj.weight")):
        width = shape.head_width
        return Renaming(
            [f"model.{name}"],
            # Transpose a head's rows from (half, position) to (position, half), and back.
            lambda ours: [ours.reshape(-1, 2, width // 2, shape.hidden).transpose(1, 2).reshape(ours.shape)],
            lambda theirs: theirs[0].reshape(-1, width // 2, 2, shape.hidden).transpose(1, 2).flatten(0, 2),
        )
    return _same(f"model.{name}")


def _same(name: str) -> Renaming:
    return Renaming([name], lambda ours: [ours], lambda theirs: theirs[0])


def _of_experts(family: ModelFamily, shape: Shape, layer: str, part: str) -> Renaming:
    block = f"{layer}.block_sparse_moe" if family == "mixtral" else f"{layer}.mlp"
    if part == "router.weight":
        return _same(f"{block}.gate.weight")
    if part == "bias":
        if family == "mixtral":
            # Mixtral has no bias. A model exported as Mixtral has a bias that changes no choice (see `same_for_all`).
            return Renaming([], lambda _: [], lambda _: torch.zeros(shape.experts))
        return Renaming([f"{block}.{CORRECTION_BIAS}"], lambda ours: [ours[None]], lambda theirs: theirs[0][0])
    projection = part.removeprefix("experts.")
    if family == "mixtral":
        projection = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}[projection]
    return Renaming(
        [f"{block}.experts.{expert}.{projection}.weight" for expert in range(shape.experts)],
        lambda ours: [expert.T for expert in ours],
        lambda theirs: torch.stack([expert.T for expert in theirs]),
    )


def same_for_all(bias: Tensor) -> bool:
    """Return whether the bias changes no choice of experts."""
    return bool((bias == bias[0]).all())
