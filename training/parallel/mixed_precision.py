"""Mixed precision of a model that one rank holds completely.

Weights stay fp32, and a module reads its own as bf16 or fp16. FSDP would do the same, but would copy all weights and
gradients once more as if to send them.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from training.model.decoder import Decoder
from training.parallel.fsdp import COMPUTE_TYPES


def apply(model: Decoder, precision: str) -> None:
    """Make the modules compute in `precision`. Gradients stay fp32, and parameters keep their names."""
    compute_type = COMPUTE_TYPES[precision]
    if compute_type is None:
        return
    inside, outside = set(model.layers.modules()), []
    for module in model.modules():
        names = tuple(name for name, _ in module.named_parameters(recurse=False))
        if names:
            kind: Any = type(module)
            module.__class__ = _reading_as(compute_type, kind, names)
            if module not in inside:
                outside.append(module)

    def cast(*_: Any) -> None:
        for module in outside:
            own = module.named_parameters(recurse=False)
            module.__dict__["cast"] = {name: parameter.to(compute_type) for name, parameter in own}

    # A layer is used once per pass. It casts where it computes, so that activation checkpointing casts again instead of
    # keeping the result. Embedding and output may be used more often, and are cast once.
    model.register_forward_pre_hook(cast)


# All modules of a kind share one class, because the compiler recompiles a layer whose modules have other classes.
@cache
def _reading_as(compute_type: torch.dtype, kind: Any, names: tuple[str, ...]) -> type[nn.Module]:
    """Return a subclass of `kind` whose attributes of these names are its parameters cast to the type."""

    def cast(name: str) -> property:
        def read(module: nn.Module) -> Tensor:
            before: dict[str, Tensor] = module.__dict__.get("cast", {})
            parameter = module._parameters[name]
            assert parameter is not None
            return before[name] if name in before else parameter.to(compute_type)

        return property(read)

    return type(kind.__name__, (kind,), {name: cast(name) for name in names})
