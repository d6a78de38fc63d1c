"""Submitting: the job file and what goes with it go to the bucket, and then the request to SageMaker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from trainway.launch.program.request import Request
from trainway.launch.sagemaker.api import client, described, explained
from trainway.launch.sagemaker.channels import files_location, host_files, on_hosts
from trainway.launch.sagemaker.options import SageMakerOptions
from trainway.launch.sagemaker.render import render_request
from trainway.launch.sagemaker.subnets import usable_subnets
from trainway.launch.target.protocol import Handle
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue

_RUNNING = ("InProgress", "Stopping")


def submit(request: Request, catalogue: Catalogue, options: SageMakerOptions | None = None) -> Handle:
    """Submit a run, and return its handle.

    Raises UsageError if the request cannot be made, if a run of that name is running, or if AWS refuses.
    """
    options = options or SageMakerOptions()
    rendered = render_request(request, catalogue, options)
    region, what = request.hand_off.region, f"{request.run} cannot be submitted to SageMaker"
    with explained(what, quota=_quota(rendered)):
        sagemaker, s3, ec2 = client("sagemaker", region), client("s3", region), client("ec2", region)
        instance, network = catalogue[request.allocation.group.instance_type], rendered["VpcConfig"]
        network["Subnets"] = usable_subnets(
            request, instance, network["Subnets"], options.training_plan, ec2=ec2, sagemaker=sagemaker
        )
        name = _free_name(sagemaker, request.run)
        on_nodes = on_hosts(request)
        texts = host_files(on_nodes)
        objects = {name: _object(f"{files_location(on_nodes)}{name}") for name in texts}
        for name_of_file, where in objects.items():
            s3.put_object(**where, Body=texts[name_of_file].encode(), ChecksumAlgorithm="SHA256")
        try:
            sagemaker.create_training_job(**rendered | {"TrainingJobName": name})
        except sagemaker.exceptions.ClientError as error:
            # A job that has the name, and an earlier start of the run, use the objects.
            if name == request.run and error.response["Error"]["Code"] != "ResourceInUse":
                _delete(s3, objects.values())
            raise
    return {"name": name, "region": region}


def _object(location: str) -> dict[str, str]:
    """Return the bucket and the key of a location, as operations of S3 name them."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}


def _delete(s3: Any, objects: Iterable[Mapping[str, str]]) -> None:
    """Delete objects that no job uses. Whoever submits may lack the right to, and the refusal is what matters then."""
    from botocore.exceptions import BotoCoreError, ClientError

    with suppress(ClientError, BotoCoreError):
        for where in objects:
            s3.delete_object(**where)


def find(request: Request, options: SageMakerOptions) -> Handle | None:
    """Return the handle of the training job with the name of a run, or None if SageMaker does not have it."""
    del options
    region = request.hand_off.region
    with explained(f"it is unknown whether {request.run} was submitted"):
        found = described(client("sagemaker", region), request.run)
    return None if found is None else {"name": request.run, "region": region}


def _quota(rendered: Mapping[str, Any]) -> str:
    """Return the name of the quota that the nodes of a job count against, as Service Quotas spells it.

    https://docs.aws.amazon.com/general/latest/gr/sagemaker.html (read 2026-11-23)
    """
    resources = rendered["ResourceConfig"]
    kinds = ["spot training job" if rendered["EnableManagedSpotTraining"] else "training job"]
    if "KeepAlivePeriodInSeconds" in resources:
        kinds.append("training warm pool")
    return " and ".join(f"`{resources['InstanceType']} for {kind} usage`" for kind in kinds)


def _free_name(sagemaker: Any, run: str) -> str:
    """Return the run's name, with a number after earlier starts. A name can be used once in a Region."""
    start, name = 1, run
    while (earlier := described(sagemaker, name)) is not None:
        if earlier["TrainingJobStatus"] in _RUNNING:
            why = f"the training job {name} is {earlier['TrainingJobStatus']}"
            fix = "`trainway stop` ends it; or launch another run, with another --run"
            raise usage_error(f"{run} cannot be submitted to SageMaker", why=why, fix=fix)
        start += 1
        name = f"{run}-start-{start}"
    return name
