"""The section `hang_detection` of the job file."""

from typing import Literal

from pydantic import Field

from training.config.section import Section


class HangDetection(Section):
    """`hang_detection`: how long a step may take before the ranks end, so that the run restarts."""

    action: Literal["restart", "none"] = Field(
        "restart",
        description="restart ends all ranks with exit status 76 when no step ends in time. torchrun then starts them "
        "again, and they resume from the newest checkpoint. none waits for the timeout of the collectives.",
    )
    step_factor: float = Field(
        5, ge=2, description="A step hangs if it takes this many times the median of the last 50 steps."
    )
    least_seconds: float = Field(
        20,
        gt=0,
        description="Seconds that every step may take, however short the steps before it were. If a rank gives no sign "
        "of life for 15 seconds, as when its host is lost, the step may take only 15 seconds or twice the median.",
    )
    meeting_seconds: float = Field(
        300,
        gt=0,
        le=1800,
        description="Seconds that a rank waits at its start until it is connected with all others. It must be longer "
        "than the difference between the starts of two nodes, which read and import the same files.",
    )
    other_seconds: float = Field(
        1800,
        gt=0,
        description="Seconds that everything other than a step may take: start, load, the first three steps with their "
        "compilation, evaluation, checkpoint, and rewind.",
    )
    # The default is PyTorch's for NCCL: https://docs.pytorch.org/docs/stable/distributed.html (read 2026-11-25)
    collective_timeout_seconds: int = Field(
        600,
        ge=5,
        le=86_400,
        description="Seconds that a rank waits for the other ranks in a collective of a step. Then NCCL's flight "
        "recorder writes its files, and the ranks end. It must be longer than the longest pause of a rank, such as for "
        "data. Until the first step is over, after the last one, and in a rewind, a rank also waits `other_seconds`.",
    )
