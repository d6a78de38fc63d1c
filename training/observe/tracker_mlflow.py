"""Send metrics to a run in MLflow. Only its tracker process imports this module."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# A server that does not answer holds up nothing but this process, which says so and tries again.
# https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html (read 2026-11-27)
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")

from mlflow import MlflowClient  # type: ignore[import-not-found,unused-ignore]
from mlflow.entities import Metric, Param  # type: ignore[import-not-found,unused-ignore]

from training.observe.tracker_process import TrackedRow

# The server chooses the ID of a run. A tag finds the run of an earlier attempt.
_TAG = "trainway.run"
_STATUS = {"succeeded": "FINISHED", "stopped": "KILLED", "killed": "FAILED"}


class MlflowRun:
    """A run of MLflow, which has the last step and the last evaluation as metrics."""

    def __init__(self, client: MlflowClient, run_id: str, sent: dict[str, int]) -> None:
        self._client, self._id, self.sent = client, run_id, sent

    def send(self, rows: Sequence[TrackedRow]) -> None:
        """Send rows in one request, so that a step is there with all its numbers or not at all."""
        metrics = [
            Metric(name, number, int(row.time * 1000), row.step) for row in rows for name, number in row.numbers.items()
        ]
        if metrics:
            self._client.log_batch(self._id, metrics=metrics)
        self.sent |= {row.kind: row.step for row in rows}

    def finish(self, state: str) -> None:
        """End the run. A later attempt opens it again."""
        self._client.set_terminated(self._id, _STATUS[state])


def open_run(run: str, directory: Path, description: dict[str, Any]) -> MlflowRun:
    """Return the run of this name in the experiment, which an earlier attempt may have created."""
    del directory
    client, name = MlflowClient(), os.environ["MLFLOW_EXPERIMENT_NAME"]
    experiment = client.get_experiment_by_name(name)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(name)
    found = client.search_runs([experiment_id], f"tags.`{_TAG}` = '{run}'", max_results=1)
    if not found:
        created = client.create_run(experiment_id, tags={_TAG: run}, run_name=run)
        # A parameter never changes, so those of one attempt are left out.
        same = {name: value for name, value in description.items() if name != "resumed_from"}
        client.log_batch(created.info.run_id, params=[Param(name, str(value)) for name, value in same.items()])
        return MlflowRun(client, created.info.run_id, {})
    earlier = found[0]
    client.update_run(earlier.info.run_id, status="RUNNING")
    numbers = earlier.data.metrics
    marks = {"step": numbers.get("step", 0), "evaluation": numbers.get("evaluation/step", 0)}
    return MlflowRun(client, earlier.info.run_id, {kind: int(step) for kind, step in marks.items()})
