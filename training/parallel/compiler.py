"""torch.compile, layer by layer: the layers are alike, so that one of them is compiled for all."""

import torch

from training.model.decoder import Decoder


def apply(model: Decoder, backend: str, whole: bool = True) -> None:
    """Compiles the forward pass of every layer. Where it should be one graph (`whole`), a break in it raises.

    The method and not the module, so that FSDP's hooks stay outside of what is compiled, and no parameter gets another
    name.
    """
    for layer in model.layers.values():
        layer.forward = torch.compile(layer.forward, backend=backend, fullgraph=whole)
