"""`memory` of the job file."""

from typing import Literal

from pydantic import Field

from training.config.section import Section


class Memory(Section):
    """What is computed again, gathered again or kept on the host instead of in the device's memory."""

    activation_checkpointing: Literal["none", "full", "selective"] = Field(
        "none",
        description="What the backward pass computes again. full: everything in a layer. selective: all but attention "
        "and every second matrix product, which are dear.",
    )
    checkpoint_every: int = Field(1, ge=1, description="Every which layer is checkpointed: 2 leaves out every second.")
    reshard_after_forward: bool = Field(
        True,
        description="Whether a layer's gathered weights are freed after its forward pass and gathered again for the "
        "backward pass (ZeRO-3), or kept until then (ZeRO-2). A pipeline always keeps them.",
    )
    loss_chunks: int = Field(
        1,
        ge=1,
        description="Chunks of the sequence whose logits are in memory one at a time; computes the output projection "
        "once more. Where tp is above 1 the logits are divided by it already.",
    )
    offload: bool = Field(
        False,
        description="Whether weights, gradients and the optimizer's state are in the host's memory, where the step is "
        "computed. The device has the layers that it computes with, which come over its bus in every pass.",
    )
