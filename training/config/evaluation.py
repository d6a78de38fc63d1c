"""The section `evaluation` of the job file."""

from pydantic import Field

from training.config.section import Section


class Evaluation(Section):
    """`evaluation`: the loss on data that the model is not trained on."""

    every: int = Field(500, ge=1, description="Steps between evaluations. The last step always evaluates.")
    shards: int = Field(
        0,
        ge=0,
        description="Number of shards at the end of data.train that are held out for evaluation. 0: no evaluation.",
    )
    samples: int = Field(
        256, ge=1, description="Number of samples in an evaluation, over all ranks. They are the same every time."
    )
