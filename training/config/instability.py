"""The section `instability` of the job file."""

from typing import Literal

from pydantic import Field

from training.config.section import Section


class Instability(Section):
    """The section `instability` of a job file: which steps are skipped, and when the run gives up."""

    skip_limit: int = Field(
        10,
        ge=1,
        description="Number of consecutive skipped steps after which the run takes `action`. A step is skipped if its "
        "loss or gradient norm is not finite, or a spike. A skipped step changes no weights.",
    )
    action: Literal["stop", "rewind"] = Field(
        "stop",
        description="stop ends the run with exit status 65. rewind loads the newest checkpoint, and continues with "
        "the samples that follow the skipped steps.",
    )
    rewinds: int = Field(
        3, ge=1, description="Number of rewinds to one checkpoint, after which a run with `action: rewind` stops."
    )
    # The rule and its numbers are those of OLMo-core's SkipStepOptimizer, of which sigma is 6 and the window 128:
    # https://github.com/allenai/OLMo-core/blob/main/src/olmo_core/optim/skip_step_optimizer.py (read 2026-11-23)
    spike_sigma: float | None = Field(
        None,
        gt=0,
        description="A loss or gradient norm is a spike if it exceeds the mean of the last `spike_window` steps by "
        "this many standard deviations. Default: no step is a spike.",
        examples=[6],
    )
    spike_window: int = Field(
        128,
        ge=8,
        le=4096,
        description="Number of last steps to which a loss and gradient norm are compared. The rule applies after half "
        "as many steps.",
    )
