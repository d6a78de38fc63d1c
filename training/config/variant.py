"""The section `variant` of the job file."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section


class RotaryScaling(Section):
    """Scaling of rotary position embeddings for longer texts, as in Llama 3.1."""

    factor: float = Field(gt=1, description="Factor by which low frequencies are divided. 8 in Llama 3.1.")
    original_length: int = Field(
        8192, ge=1, description="Length in tokens of the texts that the model was trained on before."
    )
    low_turns: float = Field(
        1.0, gt=0, description="Frequencies with fewer turns than this in that length are divided by the whole factor."
    )
    high_turns: float = Field(
        4.0, gt=0, description="Frequencies with more turns than this in that length stay unchanged."
    )

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
    """`variant`: changes to the preset."""

    tied: bool | None = Field(None, description="Use the embedding as the output projection. Default: the preset's.")
    sliding_window: int | None = Field(
        None,
        ge=1,
        description="Number of tokens that a token attends to, itself included. Default: all tokens before it.",
    )
    experts: int | None = Field(None, ge=2, description="Number of experts in a layer. Default: the preset's.")
    experts_per_token: int | None = Field(
        None, ge=1, description="Number of experts that process each token. Default: the preset's, which is two."
    )
    rope_scaling: RotaryScaling | None = Field(
        None, description="Scaling of rotary position embeddings. Default: none."
    )
    layers: int | None = Field(
        None, ge=1, description="Number of layers. Default of this and of the sizes below: the preset's."
    )
    hidden: int | None = Field(None, ge=1, description="Width of the residual stream.")
    heads: int | None = Field(None, ge=1, description="Number of query heads.")
    key_value_heads: int | None = Field(
        None, ge=1, description="Number of key and value heads, which the query heads share."
    )
    attention_width: int | None = Field(None, ge=2, description="Width of all query heads together. Default: `hidden`.")
    feed_forward: int | None = Field(None, ge=1, description="Width of the feed-forward layer.")
    rope_theta: float | None = Field(None, gt=1, description="Base of the rotary frequencies.")
    norm_epsilon: float | None = Field(None, gt=0, description="Added to the mean square in the norms.")
