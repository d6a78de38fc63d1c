"""The section `batch` of the job file."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section


class Batch(Section):
    """`batch`: the number of samples in a step, and how they are divided."""

    global_: int = Field(
        alias="global",
        ge=1,
        description="Samples in one optimizer step, over all ranks. It affects what the model learns.",
    )
    micro: int = Field(
        1,
        ge=1,
        description="Samples in one forward pass of one rank. It affects the memory, and not what the model learns.",
    )

    @model_validator(mode="after")
    def _whole_micro_batches(self) -> Self:
        if self.global_ % self.micro:
            raise PydanticCustomError(
                "batch",
                "a global batch of {global} samples cannot be cut into micro-batches of {micro}",
                {
                    "global": self.global_,
                    "micro": self.micro,
                    "remedy": f"make global a multiple of {self.micro}, such as "
                    f"{-(-self.global_ // self.micro) * self.micro}",
                },
            )
        return self
