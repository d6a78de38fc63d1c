"""Launching as a SageMaker training job, which needs no cluster: rendering, submitting and watching."""

from trainway.launch.sagemaker.logs import logs
from trainway.launch.sagemaker.options import DATA, DataFrom, SageMakerOptions
from trainway.launch.sagemaker.render import as_json, render_request
from trainway.launch.sagemaker.submit import submit
from trainway.launch.sagemaker.target import TARGET
from trainway.launch.sagemaker.watch import shell, state, stop

__all__ = [
    "DATA",
    "TARGET",
    "DataFrom",
    "SageMakerOptions",
    "as_json",
    "logs",
    "render_request",
    "shell",
    "state",
    "stop",
    "submit",
]
