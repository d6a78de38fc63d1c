"""Send metrics to a run in Weights & Biases. Only its tracker process imports this module."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# https://docs.wandb.ai/models/track/environment-variables (read 2026-11-27)
os.environ |= {
    "WANDB_SILENT": "true",
    "WANDB_CONSOLE": "off",
    "WANDB_DISABLE_GIT": "true",
    "WANDB_DISABLE_CODE": "true",
}

import wandb  # type: ignore[import-not-found,unused-ignore]

from training.observe.tracker_marks import read_marks, write_marks
from training.observe.tracker_process import TrackedRow


class WandbRun:
    """A run of W&B. W&B ignores a step that is not above the last one, so a step is never sent twice."""

    def __init__(self, run: Any, directory: Path) -> None:
        self._run, self._directory, self.sent = run, directory, read_marks(directory)
        if run.step:
            # What another machine sent before this directory was lost.
            self.sent["step"] = max(self.sent.get("step", 0), run.step - 1)

    def send(self, rows: Sequence[TrackedRow]) -> None:
        """Give rows to the package, which sends them in the background."""
        for row in rows:
            self._run.log(row.numbers, step=row.step)
            self.sent[row.kind] = row.step
        write_marks(self._directory, self.sent)

    def finish(self, state: str) -> None:
        """Wait until all is sent. W&B shows a run with another exit code than 0 as failed."""
        self._run.finish(exit_code=1 if state == "killed" else 0)


def open_run(run: str, directory: Path, description: dict[str, Any]) -> WandbRun:
    """Return the run whose project and ID are in environment variables. It exists if this attempt is not the first."""
    del run
    settings = wandb.Settings(x_disable_stats=True, init_timeout=30)
    opened = wandb.init(dir=str(directory), config=description, settings=settings, allow_val_change=True)
    return WandbRun(opened, directory)
