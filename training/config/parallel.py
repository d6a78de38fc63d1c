"""`parallel` of the job file."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section

DEGREES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")

ContextMethod = Literal["gather", "all-to-all"]
PipelineSchedule = Literal["1f1b", "interleaved", "zero-bubble"]


class Parallel(Section):
    """How the ranks of the job are laid out; the product of the degrees is the number of ranks."""

    dp_shard: int = Field(
        -1, description="Ranks that share one copy of the weights (FSDP); -1, in one degree, takes the ranks left."
    )
    dp_replicate: int = Field(
        1,
        description="Copies of the weights: HSDP where dp_shard is above 1, DDP where it is 1.",
    )
    tp: int = Field(
        1, description="Tensor-parallel degree: ranks that share each matrix product, and the sequence between them."
    )
    cp: int = Field(1, description="Context-parallel degree: ranks that share the sequence.")
    pp: int = Field(1, description="Pipeline-parallel degree: ranks that the layers are divided over.")
    ep: int = Field(
        1,
        ge=1,
        description="Expert-parallel degree: of the dp_shard x cp ranks, so many at a time divide the experts between "
        "them. It is no factor of the number of ranks.",
    )
    cp_method: ContextMethod = Field(
        "gather",
        description="gather: every rank gets all keys and values. all-to-all: every rank gets all of the sequence for "
        "some of the heads; sends less where there are many query heads to a key head, and needs as many key heads.",
    )
    pp_schedule: PipelineSchedule = Field(
        "1f1b",
        description="Order of the micro-batches. 1f1b: one stage a rank. interleaved and zero-bubble: two stages a "
        "rank, which halves the time that ranks wait; zero-bubble fills it with gradients of the weights.",
    )

    @field_validator(*DEGREES)
    @classmethod
    def _positive_or_derived(cls, degree: int) -> int:
        if degree == -1 or degree >= 1:
            return degree
        raise PydanticCustomError(
            "degree", "a degree of {degree} is impossible", {"degree": degree, "remedy": "write 1 or more, or -1"}
        )

    @model_validator(mode="after")
    def _one_unknown(self) -> Self:
        unknown = [name for name in DEGREES if getattr(self, name) == -1]
        if len(unknown) > 1:
            raise PydanticCustomError(
                "two_unknowns",
                "{names} are both -1, so neither can be derived",
                {"names": " and ".join(unknown[:2]), "remedy": "give all degrees but one a number"},
            )
        return self

    @property
    def stages_per_rank(self) -> int:
        """Parts of the model that one rank of the pipeline holds."""
        return 1 if self.pp_schedule == "1f1b" else 2
