"""The section `data` of the job file."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from training.config.location import LOCATION_FORMS, Location
from training.config.section import Section


class Data(Section):
    """The section `data` of a job file: the token shards that the model is trained on."""

    train: Location = Field(
        description=f"Location of the token shards that `python -m training.prepare` wrote: {LOCATION_FORMS}.",
        examples=["fsx:/corpus/web"],
    )
    sequence_length: int = Field(2048, ge=2, description="Tokens in one training sample.")
    blend: dict[Location, Annotated[float, Field(ge=0.001, lt=1)]] = Field(
        {},
        description="Locations of further token shards, each with its share of the samples, between 0.001 and 1. The "
        "rest comes from `train`. All must use the same tokenizer.",
        examples=[{"fsx:/corpus/code": 0.2}],
    )
    mask_documents: bool = Field(
        False,
        description="Stop attention at the beginning of a document if a sample holds several. Rotary positions are "
        "not reset, because attention depends on differences of positions only.",
    )
    shuffle_shards: int = Field(
        64,
        ge=1,
        description="Number of shards whose samples are shuffled together. With S3, a node holds this many shards "
        "and fetches as many ahead.",
    )
    cache: str | None = Field(
        None,
        description="Directory on each node's local disk for shards fetched from S3. Default: trainway/shards below "
        "$XDG_CACHE_HOME or ~/.cache.",
    )
    cache_gib: float | None = Field(
        None,
        gt=0,
        description="Size limit of `cache` in GiB. The least recently used shards are deleted. Default: no limit.",
    )

    @field_validator("blend")
    @classmethod
    def _something_is_left_for_train(cls, blend: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        if info.data.get("train") in blend:
            raise PydanticCustomError(
                "blend",
                "'{train}' is data.train, which gets what the others leave",
                {"train": info.data["train"], "remedy": "leave it out of data.blend"},
            )
        if sum(blend.values()) > 0.999:
            raise PydanticCustomError(
                "blend",
                "the shares add up to {total}, which leaves nothing for data.train",
                {"total": f"{sum(blend.values()):g}", "remedy": "let them add up to less than 1"},
            )
        return blend

    @property
    def shares(self) -> dict[str, float]:
        """Return every location with its share of the samples, `train` first."""
        return {self.train: 1 - sum(self.blend.values())} | self.blend
