"""Bytes per token that the layers of a model save for the backward pass, computed without torch.

They are what PyTorch saves of `training/model/decoder.py`. On processors, a test measures them with hooks on saved
tensors. On GPUs the norms differ, which CUDA computes in one kernel. Those sizes were not measured on a card.
"""

from typing import Literal

from training.config.presets import Shape

TorchDevice = Literal["cpu", "cuda"]
Mode = Literal["none", "full", "selective"]


def saved_per_token(
    shape: Shape, half: bool, mode: Mode, device: TorchDevice = "cuda", *, compiled: bool = False
) -> int:
    """Return the bytes that one layer saves for a token. `half`: products are in 16 bits."""
    hidden, queries, keys = shape.hidden, shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    forward = shape.feed_forward
    chosen = shape.experts_per_token if shape.experts else 1
    # The logarithm of each head's sum, in fp32.
    heads = 4 * shape.heads
    width = 2 if half else 4
    if mode == "full":
        return width * hidden
    if mode == "selective":
        return width * (hidden + 2 * queries + keys + chosen * forward) + heads
    if half and device == "cuda" and compiled:
        each = 4 * hidden + 4 * queries + 4 * keys + 4 * forward + heads
    elif device == "cuda":
        each = (8 if half else 16) * hidden + width * (2 * queries + 2 * keys + 4 * forward) + heads + 8
    else:
        each = (2 * width + 16) * hidden + width * (2 * queries + 2 * keys + 4 * forward) + heads + 8
    return each + _of_experts(shape, width)


def _of_experts(shape: Shape, width: int) -> int:
    """Return the bytes that a mixture of experts saves for each token, in addition to those of one feed-forward.

    Each expert that a token chooses saves a copy of the token, its output, and the activations inside its feed-forward.
    The router saves nothing of its own, because its input is the token.
    """
    if not shape.experts:
        return 0
    chosen = shape.experts_per_token
    return width * (chosen * 2 * shape.hidden + (chosen - 1) * 4 * shape.feed_forward)


def of_undivided_sequence(shape: Shape, half: bool, mode: Mode) -> int:
    """Return those bytes that tensor parallelism does not divide, of a layer and token.

    Between the products, the residual stream is divided by the sequence. The inputs of attention and feed-forward are
    gathered for their products.
    """
    return (4 if half else 8) * shape.hidden if mode == "none" else 0
