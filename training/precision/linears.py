"""Replace PyTorch's linear layers by others, from outside, before a model is divided."""

from collections.abc import Callable

from torch import nn

from training.model.decoder import Decoder

Replace = Callable[[nn.Linear], nn.Module]


def replace_linears(model: Decoder, replace: Replace, block: int = 1, keep_first_and_last: bool = False) -> None:
    """Replace every linear layer inside the decoder's layers by the result of `replace`.

    A linear layer whose rows or columns are not a multiple of `block` stays. `keep_first_and_last` keeps those of the
    model's first and last layer. A router stays, too: it is small, and 8 bits are too few for a choice among experts.
    """
    for layer in layers_of(model, keep_first_and_last):
        for parent in list(layer.modules()):
            for name, module in list(parent.named_children()):
                if isinstance(module, nn.Linear) and name != "router" and _fits(module, block):
                    setattr(parent, name, replace(module))


def layers_of(model: Decoder, but_first_and_last: bool) -> list[nn.Module]:
    """Return the decoder's layers, optionally without the first and the last of the whole model."""
    ends = {"0", str(model.shape.layers - 1)} if but_first_and_last else set()
    return [layer for number, layer in model.layers.items() if number not in ends]


def _fits(linear: nn.Linear, block: int) -> bool:
    return linear.in_features % block == 0 and linear.out_features % block == 0
