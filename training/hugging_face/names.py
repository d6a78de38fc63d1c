"""Map our tensors to those of transformers: names and layout of the values.

Most have the same name and the same values: `training/model/decoder.py` uses Llama's rotary convention. We store the
experts in one tensor, transformers in many. Some families rotate neighboring columns of a head, we rotate its halves.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from training.config.presets import Shape
from training.hugging_face.families import FAMILIES, ExpertNames, ModelFamily

# Where the correction bias of a router is in our state dict.
BIAS = ".mlp.bias"


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
    experts = FAMILIES[family].experts if shape.experts else None
    if experts and part:
        return _of_experts(experts, shape, f"model.{before}", part)
    if FAMILIES[family].rotates_neighbors and name.endswith(("q_proj.weight", "k_proj.weight")):
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


def _of_experts(names: ExpertNames, shape: Shape, layer: str, part: str) -> Renaming:
    block = f"{layer}.{names.block}"
    if part == "router.weight":
        return _same(f"{block}.gate.weight")
    if part == "bias":
        if names.bias is None:
            # A model is exported to a family without a bias if the bias changes no choice (see `same_for_all`).
            return Renaming([], lambda _: [], lambda _: torch.zeros(shape.experts))
        return Renaming([f"{block}.{names.bias}"], lambda ours: [ours[None]], lambda theirs: theirs[0][0])
    projection = part.removeprefix("experts.")
    projection = names.projections.get(projection, projection)
    return Renaming(
        [f"{block}.experts.{expert}.{projection}.weight" for expert in range(shape.experts)],
        lambda ours: [expert.T for expert in ours],
        lambda theirs: torch.stack([expert.T for expert in theirs]),
    )


def same_for_all(bias: Tensor) -> bool:
    """Return whether the bias changes no choice of experts."""
    return bool((bias == bias[0]).all())
