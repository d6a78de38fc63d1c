"""The job file's model, the one part of the training job that the launcher reads."""

from __future__ import annotations

from trainway.parts.checkout import make_importable

make_importable()

from training.config import (  # noqa: E402 - importable from here on
    LAUNCHER_SECTIONS,
    SHARE_OF_PEAK,
    Job,
    LayoutChoice,
    Location,
    NodeRates,
    footprint,
    layout_choices,
)

__all__ = [
    "LAUNCHER_SECTIONS",
    "SHARE_OF_PEAK",
    "Job",
    "LayoutChoice",
    "Location",
    "NodeRates",
    "footprint",
    "layout_choices",
]
