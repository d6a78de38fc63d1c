"""`evaluation` of the job file."""

from pydantic import Field

from training.config.section import Section


class Evaluation(Section):
    """The loss on text that is not trained on."""

    every: int = Field(500, ge=1, description="Steps between evaluations; the last step always makes one.")
    shards: int = Field(
        0, ge=0, description="Last shards of data.train that are held out, and evaluated on; 0 is no evaluation."
    )
    samples: int = Field(256, ge=1, description="Samples of an evaluation, over all ranks; always the same ones.")
