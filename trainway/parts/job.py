"""The job file's model, the one part of the training job that the launcher reads."""

from __future__ import annotations

from trainway.parts.checkout import make_importable

make_importable()

from training.config import (  # noqa: E402 - importable from here on
    LAUNCHER_SECTIONS,
    SAGEMAKER_MLFLOW,
    SECRET_NAME,
    SHARE_OF_PEAK,
    Job,
    LayoutChoice,
    Location,
    NodeRates,
    Trackers,
    footprint,
    layout_choices,
)

__all__ = [
    "LAUNCHER_SECTIONS",
    "SAGEMAKER_MLFLOW",
    "SECRET_NAME",
    "SHARE_OF_PEAK",
    "Job",
    "LayoutChoice",
    "Location",
    "NodeRates",
    "Trackers",
    "footprint",
    "layout_choices",
]
