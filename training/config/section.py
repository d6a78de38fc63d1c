"""The base class of all sections of the job file."""

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from training.config.booleans import refuse_booleans


class Section(BaseModel):
    """A frozen model that refuses unknown keys, and `true` and `false` in place of numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the model, which refuses `true` and `false` in place of numbers."""
        schema: CoreSchema = refuse_booleans(handler(source))
        return schema
