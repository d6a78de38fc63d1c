"""`checkpoint` of the job file."""

from pydantic import Field

from training.config.location import LOCATION_FORMS, Location
from training.config.section import Section


class Checkpoint(Section):
    """When and where the state of the run is kept."""

    every: int = Field(500, ge=1, description="Steps between checkpoints; the last step always makes one.")
    keep: int = Field(3, ge=1, description="Newest checkpoints that are kept; older ones are deleted.")
    location: Location | None = Field(
        None, description=f"{LOCATION_FORMS}. Default: s3:/checkpoints/<name>.", examples=["fsx:/checkpoints/llama"]
    )
