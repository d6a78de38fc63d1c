"""torch.compile, layer by layer. The layers are alike, so one compilation serves all of them."""

import torch

from training.model.decoder import Decoder


def apply(model: Decoder, backend: str, whole: bool = True) -> None:
    """Compile the forward pass of every layer. If `whole` is true, a graph break raises an error.

    Compile the method instead of the module, so that FSDP's hooks stay outside of the compiled code, and parameters
    keep their names.
    """
    for layer in model.layers.values():
        layer.forward = torch.compile(layer.forward, backend=backend, fullgraph=whole)
