"""The job file's model, the one part of the training job that the launcher reads."""

from __future__ import annotations

from trainway.parts.checkout import make_importable

make_importable()

from training.config import LAUNCHER_SECTIONS, Job, Location, footprint  # noqa: E402 - importable from here on

__all__ = ["LAUNCHER_SECTIONS", "Job", "Location", "footprint"]
