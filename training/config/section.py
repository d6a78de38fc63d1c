"""What all sections of the job file have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Frozen, and without keys that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
