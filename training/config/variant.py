"""`variant` of the job file."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section


class RotaryScaling(Section):
    """Rotary positions stretched for longer texts, as Llama 3.1 does."""

    factor: float = Field(gt=1, description="By how much slow frequencies are slowed down: 8 in Llama 3.1.")
    original_length: int = Field(8192, ge=1, description="Tokens of the longest text that the model knew before.")
    low_turns: float = Field(
        1.0, gt=0, description="Frequencies below so many turns in that length are slowed in full."
    )
    high_turns: float = Field(4.0, gt=0, description="Frequencies above so many turns are left as they are.")

    @model_validator(mode="after")
    def _a_ramp_between(self) -> Self:
        if self.low_turns < self.high_turns:
            return self
        raise PydanticCustomError(
            "ramp",
            "low_turns {low} is not below high_turns {high}",
            {"low": self.low_turns, "high": self.high_turns, "remedy": "use 1 and 4 as Llama 3.1 does"},
        )


class Variant(Section):
    """What is changed in the preset."""

    tied: bool | None = Field(
        None, description="Whether the output projection is the embedding. Default: the preset's."
    )
    sliding_window: int | None = Field(
        None, ge=1, description="Tokens that a token sees, itself included. Default: all before it."
    )
    experts: int | None = Field(
        None, ge=2, description="Feed-forwards in a layer, of which a token goes through some. Default: the preset's."
    )
    experts_per_token: int | None = Field(
        None, ge=1, description="How many of the experts a token goes through. Default: the preset's, two."
    )
    rope_scaling: RotaryScaling | None = Field(None, description="Stretched rotary positions. Default: none.")
    layers: int | None = Field(None, ge=1, description="Layers. This and the sizes below: default the preset's.")
    hidden: int | None = Field(None, ge=1, description="Width of the residual stream.")
    heads: int | None = Field(None, ge=1, description="Query heads.")
    key_value_heads: int | None = Field(None, ge=1, description="Key and value heads, which query heads share.")
    attention_width: int | None = Field(
        None, ge=2, description="Width of all query heads together, where that is not `hidden`."
    )
    feed_forward: int | None = Field(None, ge=1, description="Width inside the feed-forward.")
    rope_theta: float | None = Field(None, gt=1, description="Base of the rotary frequencies.")
    norm_epsilon: float | None = Field(None, gt=0, description="Added to the mean square in the norms.")
