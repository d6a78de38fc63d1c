"""The section `memory` of the job file."""

from typing import Literal

from pydantic import Field

from training.config.section import Section


class Memory(Section):
    """`memory`: recompute, gather again, or keep on the host what would not fit in device memory."""

    activation_checkpointing: Literal["none", "full", "selective"] = Field(
        "none",
        description="What the backward pass recomputes. full recomputes everything in a layer. selective recomputes "
        "all but attention and every second matrix product, which are expensive.",
    )
    checkpoint_every: int = Field(1, ge=1, description="Checkpoint every Nth layer. 2 leaves out every second layer.")
    reshard_after_forward: bool = Field(
        True,
        description="Free the gathered weights of a layer after its forward pass and gather them again for the "
        "backward pass (ZeRO-3). false keeps them until then (ZeRO-2). A pipeline always keeps them.",
    )
    gradient_accumulation: Literal["sharded", "unsharded"] = Field(
        "sharded",
        description="What a rank holds of the gradients between micro-batches. sharded reduces and scatters them after "
        "every micro-batch, so a rank holds its shard. unsharded does so after the last micro-batch: less "
        "communication, and each rank holds 4 bytes per parameter of the model. A pipeline always uses unsharded.",
    )
    loss_chunks: int = Field(
        1,
        ge=1,
        description="Number of chunks of the sequence for the loss. Only the logits of one chunk are in memory at a "
        "time. The gradient of the output projection is summed in fp32, 4 bytes for each of its weights.",
    )
    offload: bool = Field(
        False,
        description="Keep weights, gradients, and the optimizer's state in host memory, and compute the optimizer "
        "step there. The device holds only the layers that it computes with, which are copied to it in every pass.",
    )
