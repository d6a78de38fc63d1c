"""Submitting: the job file goes to the bucket, and then the request to SageMaker."""

from __future__ import annotations

from typing import Any

from trainway.launch.request import Request
from trainway.launch.sagemaker.api import client, described, explained
from trainway.launch.sagemaker.channels import job_file_location
from trainway.launch.sagemaker.options import SageMakerOptions
from trainway.launch.sagemaker.render import render_request
from trainway.launch.target import Handle
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue

_RUNNING = ("InProgress", "Stopping")


def submit(request: Request, catalogue: Catalogue, options: SageMakerOptions | None = None) -> Handle:
    """Submits a run and returns how to find it again.

    Raises UsageError where the request cannot be made, a run of that name goes on, or AWS refuses.
    """
    rendered = render_request(request, catalogue, options)
    region, what = request.hand_off.region, f"{request.run} cannot be submitted to SageMaker"
    with explained(what):
        sagemaker, s3 = client("sagemaker", region), client("s3", region)
        name = _free_name(sagemaker, request.run)
        bucket, _, key = job_file_location(request).removeprefix("s3://").partition("/")
        s3.put_object(Bucket=bucket, Key=key, Body=request.job_text.encode(), ChecksumAlgorithm="SHA256")
        sagemaker.create_training_job(**rendered | {"TrainingJobName": name})
    return {"name": name, "region": region}


def _free_name(sagemaker: Any, run: str) -> str:
    """The run's name, or where starts before this one have it, that with a number: a name is used once in a Region."""
    start, name = 1, run
    while (earlier := described(sagemaker, name)) is not None:
        if earlier["TrainingJobStatus"] in _RUNNING:
            why = f"the training job {name} is {earlier['TrainingJobStatus']}"
            fix = "`trainway stop` ends it; or launch another run, with another --run"
            raise usage_error(f"{run} cannot be submitted to SageMaker", why=why, fix=fix)
        start += 1
        name = f"{run}-start-{start}"
    return name
