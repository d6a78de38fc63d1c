"""The base class of all sections of the job file."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
