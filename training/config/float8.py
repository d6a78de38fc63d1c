"""The section `float8` of the job file."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section


class Float8(Section):
    """Matrix products of the layers in float8, by torchao (install trainway[quantized]) or Transformer Engine."""

    recipe: Literal["none", "tensorwise", "rowwise", "blockwise", "mxfp8"] = Field(
        "none",
        description="Granularity of the scales. tensorwise uses one per tensor and is fastest. rowwise uses one per "
        "row and is more accurate. blockwise uses one per 128 numbers of a row, and per 128 x 128 block of weights, "
        "as DeepSeek-V3 does (Hopper). mxfp8 uses one per 32 numbers, a power of two (Blackwell).",
    )
    all_gather: bool = Field(
        False,
        description="Gather the weights of FSDP in float8, which halves the traffic. Requires the recipe tensorwise.",
    )
    keep_first_and_last: bool = Field(
        False, description="Keep the first and the last layer in the job's precision, which makes training more stable."
    )

    @model_validator(mode="after")
    def _gathered_by_tensor(self) -> Self:
        if self.all_gather and self.recipe != "tensorwise":
            raise PydanticCustomError(
                "float8_all_gather",
                "all_gather is true, but recipe is {recipe}, and only tensorwise weights can be gathered in float8",
                {"recipe": self.recipe, "remedy": "set recipe to tensorwise, or leave all_gather out"},
            )
        return self
