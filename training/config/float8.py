"""`float8` of the job file."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section


class Float8(Section):
    """Matrix products of the layers in float8, by torchao (install trainway[quantized]) or Transformer Engine."""

    recipe: Literal["none", "tensorwise", "rowwise", "blockwise", "mxfp8"] = Field(
        "none",
        description="What has a scale of its own. tensorwise: a whole tensor, which is fastest. rowwise: each row, "
        "which is closer. blockwise: 128 numbers of a row, of weights 128 x 128, as in DeepSeek-V3 (Hopper). mxfp8: 32 "
        "numbers of a row, whose scale is a power of two (Blackwell).",
    )
    all_gather: bool = Field(
        False, description="Whether FSDP gathers the weights in float8, which sends half; with tensorwise scales only."
    )
    keep_first_and_last: bool = Field(
        False, description="Whether the first and the last layer keep the job's precision, which learns more stably."
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
