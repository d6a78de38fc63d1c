"""torch.compile of the layers and of the loss. The layers are alike, so one compilation serves all of them."""

import torch

from training.model.decoder import Decoder
from training.model.loss import loss_of_chunk


def apply(model: Decoder, backend: str, whole: bool = True) -> None:
    """Compile the forward pass of every layer, and the loss of a chunk's logits.

    If `whole` is true, a graph break in a layer raises an error.

    Compile the method instead of the module, so that FSDP's hooks stay outside of the compiled code, and parameters
    keep their names.
    """
    for layer in model.layers.values():
        layer.forward = torch.compile(layer.forward, backend=backend, fullgraph=whole)
    if model.norm is not None:
        model.compiled_loss = torch.compile(loss_of_chunk, backend=backend, fullgraph=True)
