"""A stand-in for Transformer Engine's linear layer and its autocast, which multiplies with PyTorch."""

# ruff: noqa: ARG002 (the arguments are Transformer Engine's)

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Module):
    """The signature of transformer_engine.pytorch.Linear 2.20, and those of its demands that do not need a GPU."""

    recipes: ClassVar[list[str | None]] = []
    """Of each forward pass, what it was to be multiplied in."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Any = None,
        rng_tracker_name: str | None = None,
        init_method: Any = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: torch.dtype | None = None,
        parallel_mode: str | None = None,
        parameters_split: Any = None,
        device: torch.device | str = "cuda",
        **overlap: Any,
    ) -> None:
        super().__init__()
        assert not (bias or overlap or sequence_parallel or fuse_wgrad_accumulation or return_bias or parallel_mode)
        assert device == "meta", "memory is given to the whole model at once"
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(out_features, in_features, dtype=params_dtype, device=device))

    def get_extra_state(self) -> Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        raise AssertionError("there is nothing to set")

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # as it is where it cannot be traced
    def forward(
        self,
        inp: Tensor,
        is_first_microbatch: bool | None = None,
        fp8_output: bool | None = False,
        fp8_grad: bool | None = False,
    ) -> Tensor:
        if inp.dtype != self.weight.dtype:
            raise TypeError("Data types for parameters must match when outside of autocasted region.")
        recipe = Autocast.active[-1] if Autocast.active else None
        if recipe:
            assert self.in_features % 16 == self.out_features % 16 == inp.shape[:-1].numel() % 8 == 0
        Linear.recipes.append(type(recipe).__name__ if recipe else None)
        return F.linear(inp, self.weight)


class Autocast:
    """What transformer_engine.pytorch.autocast 2.20 is given."""

    active: ClassVar[list[Any]] = []

    def __init__(self, enabled: bool = True, calibrating: bool = False, recipe: Any = None) -> None:
        assert enabled and not calibrating
        self.recipe = recipe

    def __enter__(self) -> None:
        Autocast.active.append(self.recipe)

    def __exit__(self, *_: object) -> None:
        Autocast.active.pop()
