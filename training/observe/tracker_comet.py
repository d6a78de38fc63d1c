"""Send metrics to an experiment in Comet. Only its tracker process imports this module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import comet_ml  # type: ignore[import-not-found,unused-ignore]

from training.observe.tracker_marks import read_marks, write_marks
from training.observe.tracker_process import TrackedRow


class CometExperiment:
    """An experiment of Comet. The package sends in the background, and does not say which steps have arrived."""

    def __init__(self, experiment: Any, directory: Path) -> None:
        self._experiment, self._directory, self.sent = experiment, directory, read_marks(directory)

    def send(self, rows: Sequence[TrackedRow]) -> None:
        """Give rows to the package, which sends them in the background."""
        for row in rows:
            self._experiment.log_metrics(row.numbers, step=row.step)
            self.sent[row.kind] = row.step
        write_marks(self._directory, self.sent)

    def finish(self, state: str) -> None:
        """Wait until the package has sent all rows."""
        self._experiment.log_other("state", state)
        self._experiment.end()


def open_run(run: str, directory: Path, description: dict[str, Any]) -> CometExperiment:
    """Return the experiment whose project and key are in environment variables, new or from an earlier attempt."""
    config = comet_ml.ExperimentConfig(
        name=run,
        log_code=False,
        log_git_metadata=False,
        log_git_patch=False,
        auto_output_logging=False,  # type: ignore[arg-type]  # its type lacks the value that turns it off
        log_env_details=False,
        offline_directory=str(directory),
    )
    # COMET_START_ONLINE says whether it is online.
    experiment = comet_ml.start(mode="get_or_create", experiment_config=config)
    experiment.log_parameters(description)
    return CometExperiment(experiment, directory)
