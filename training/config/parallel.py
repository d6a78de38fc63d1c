"""The section `parallel` of the job file."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section

DEGREES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")

ContextMethod = Literal["gather", "all-to-all"]
PipelineSchedule = Literal["1f1b", "interleaved", "zero-bubble"]


class Parallel(Section):
    """`parallel`: the layout of the ranks. The product of the degrees is the number of ranks, without ep."""

    dp_shard: int = Field(
        -1,
        description="Sharded data-parallel degree, ranks that share one copy of the weights (FSDP). -1 in one degree "
        "uses all remaining ranks.",
    )
    dp_replicate: int = Field(
        1,
        description="Replicated data-parallel degree, copies of the weights. HSDP if dp_shard is above 1, otherwise "
        "DDP.",
    )
    tp: int = Field(
        1,
        description="Tensor-parallel degree, ranks that share each matrix product and the sequence between the "
        "products.",
    )
    cp: int = Field(1, description="Context-parallel degree, ranks that share the sequence.")
    pp: int = Field(1, description="Pipeline-parallel degree, ranks that the layers are divided among.")
    ep: int = Field(
        1,
        ge=1,
        description="Expert-parallel degree. Groups of this many of the dp_shard x cp ranks divide the experts among "
        "them. It does not multiply the number of ranks.",
    )
    cp_method: ContextMethod = Field(
        "gather",
        description="gather gives every rank all keys and values. all-to-all gives every rank the whole sequence for "
        "some of the heads. It sends less if many query heads share a key head, and requires at least cp key heads.",
    )
    pp_schedule: PipelineSchedule = Field(
        "1f1b",
        description="Order of the micro-batches. 1f1b has one stage per rank. interleaved and zero-bubble have two, "
        "which halves the time that ranks wait. zero-bubble fills the rest with gradients of the weights.",
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
        """Return the number of stages of the model on one rank of the pipeline."""
        return 1 if self.pp_schedule == "1f1b" else 2
