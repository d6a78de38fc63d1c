"""The section `trackers` of a job file, as its program has it."""

from __future__ import annotations

from functools import partial

from trainway.launch.program.trackers import ProgramTrackers
from trainway.parts.job import SAGEMAKER_MLFLOW, Trackers


def program_trackers(trackers: Trackers, job: str) -> ProgramTrackers:
    """Return the trackers of a job with this name."""
    outside, mlflow = dict[str, tuple[str, str]](), trackers.mlflow
    own_server = "set `base_url` to a server in your network"
    if trackers.wandb and trackers.wandb.mode == "online" and trackers.wandb.base_url is None:
        outside["wandb"] = ("api.wandb.ai", f"set `mode: offline` and upload with `wandb sync`, or {own_server}")
    if trackers.comet and trackers.comet.base_url is None:
        outside["comet"] = ("www.comet.com", f"{own_server}, or remove `trackers.comet`")
    return ProgramTrackers(
        variables=partial(trackers.environment, job),
        packages=trackers.packages,
        outside=outside,
        of_aws={"mlflow": mlflow.tracking_uri} if mlflow and SAGEMAKER_MLFLOW.fullmatch(mlflow.tracking_uri) else {},
    )
