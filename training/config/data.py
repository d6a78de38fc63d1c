"""`data` of the job file."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from training.config.location import LOCATION_FORMS, Location
from training.config.section import Section


class Data(Section):
    """The section `data` of a job file: the token shards that the model is trained on."""

    train: Location = Field(
        description=f"Where `python -m training.prepare` put the token shards: {LOCATION_FORMS}.",
        examples=["fsx:/corpus/web"],
    )
    sequence_length: int = Field(2048, ge=2, description="Tokens in one training sample.")
    blend: dict[Location, Annotated[float, Field(ge=0.001, lt=1)]] = Field(
        {},
        description="Other token shards and the share of the samples that comes from each, to a thousandth; the rest "
        "comes from `train`. All must be made with the same tokenizer.",
        examples=[{"fsx:/corpus/code": 0.2}],
    )
    mask_documents: bool = Field(
        False,
        description="Whether attention stops at the beginning of a document, where a sample holds several. "
        "Rotary positions run on, which is the same: attention sees differences of positions only.",
    )
    shuffle_shards: int = Field(
        64,
        ge=1,
        description="Shards whose samples are shuffled together. From S3, a node holds so many and fetches as many.",
    )
    cache: str | None = Field(
        None,
        description="Directory on each node's local disk for shards fetched from S3. Default: trainway/shards below "
        "$XDG_CACHE_HOME, or below ~/.cache where that is not set.",
    )
    cache_gib: float | None = Field(
        None, gt=0, description="GiB that `cache` may take; shards used longest ago are deleted. Default: no limit."
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
        """Every location and its share of the samples, `train` first."""
        return {self.train: 1 - sum(self.blend.values())} | self.blend
