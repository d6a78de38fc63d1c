"""Whether a job can run on its nodes: its image, memory, trackers, secrets, and inputs, as far as known before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from trainway.launch.platform.locations import located_at, scheme_of
from trainway.launch.program.allocation import FIX_ACCELERATOR, Allocation, is_usable, why_unusable
from trainway.launch.program.program import DeviceMemory, Program
from trainway.launch.program.request import Request
from trainway.launch.starting.job_packages import TargetPython
from trainway.spec.document import read_document
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Accelerator
from trainway.spec.facts.versions import Combination, combinations_with_the_agent, versions_facts
from trainway.spec.handoff import HandOff
from trainway.spec.image.compatibility import fabric_of, gda_lacks, gin_lacks
from trainway.spec.image.image_build import combination_of, key_of_image, own_base
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError

RESERVED_GIB: Final = 4
"""What CUDA's context and the buffers of NCCL take of a GPU. An allowance, which was not measured."""
CERTAIN: Final = 1.25
"""A program that needs this many times the memory of a GPU is refused. Below that, the computation can be wrong."""

GIN_TYPE: Final = "NCCL_GIN_TYPE"
# GDAKI, the backend of GIN in the kernels of the GPU.
# https://github.com/aws/aws-ofi-nccl/blob/master/doc/gin-getting-started.md (read 2026-11-28)
GDA: Final = "5"


class Asked(NamedTuple):
    """What a launch asks. Without `ask`, Secrets Manager is not asked. A `dry_run` can be of inputs still to come."""

    ask: bool
    dry_run: bool


def check_use(
    request: Request, platform: Platform, python: Callable[[], TargetPython], asked: Asked, *, kind: str | None
) -> None:
    """Raise UsageError for an image, a tracker, a secret, or an input that the job cannot use on the platform.

    `python` returns the Python of the job's image. `kind` is that of its Kubernetes object, and None for others.
    """
    check_contents(request, platform, kind)
    program = request.program
    check_tracker_network(program, platform)
    check_tracker_rights(program, platform)
    check_tracker_packages(program, python, PIP_IN_IMAGE)
    check_secrets(program, platform, ask=asked.ask)
    if not asked.dry_run:
        check_inputs(program, request.hand_off)


def with_platform_mlflow(program: Program, platform: Platform | None) -> Program:
    """Return a program that reports to `observability.mlflow` of its platform, if its job file says so.

    `platform` is None on this machine. Raises UsageError if there is no such MLflow.
    """
    if not program.trackers.needs_platform_mlflow or "MLFLOW_TRACKING_URI" in program.environment:
        return program
    arn = platform and platform.observability.mlflow
    if not arn:
        where = f"{platform.name} has no `observability.mlflow`" if platform else "this machine has no platform"
        raise usage_error(
            f"{program.name} cannot report to trackers.mlflow",
            why=f"the job file has no `tracking_uri`, and {where}",
            fix="set `trackers.mlflow.tracking_uri` in the job file, or use a platform with `observability.mlflow`",
        )
    return replace(
        program,
        environment={**program.environment, "MLFLOW_TRACKING_URI": arn},
        trackers=replace(program.trackers, of_aws={"mlflow": arn}),
    )


def check_contents(request: Request, platform: Platform, kind: str | None) -> None:
    """Raise UsageError for a job that its image cannot run. `kind` is that of its Kubernetes object, None for others.

    Nothing is known of an image of the user's, or of one on a base of theirs.
    """
    if request.image_name not in platform.image_names:
        return
    view = platform.of_image(request.image_name)
    if view.image.uri or own_base(view):
        return
    chosen = combination_of(view, versions_facts())
    what = f"{request.program.name} cannot run in the image {request.image_name}, of {chosen.name}"
    if kind == "HyperPodPyTorchJob" and platform.orchestrator.is_hyperpod and not chosen.hyperpod_elastic_agent:
        fitting = " or ".join(combinations_with_the_agent())
        raise usage_error(
            what,
            why=f"a {kind} starts by HyperPod's elastic agent, which does not support PyTorch {chosen.pytorch}",
            fix=f"launch another kind, or write an image with `versions: {fitting}` and name it with --image",
        )
    if lacks := _gin_lacks(chosen, request.program.environment.get(GIN_TYPE)):
        raise usage_error(
            what,
            why=f"{GIN_TYPE} asks for GPU-initiated networking: {lacks}",
            fix=f"set `{key_of_image(view)}.versions: edge` in the platform file and deploy, or leave {GIN_TYPE} out",
        )


def _gin_lacks(chosen: Combination, gin_type: str | None) -> str | None:
    """Return what the image lacks for a value of NCCL_GIN_TYPE, or None if it has all. "0" turns GIN off."""
    fabric = fabric_of(versions_facts(), chosen)
    if gin_type in (None, "0", "") or fabric is None:
        return None
    return gin_lacks(fabric, chosen.gdrcopy) or (gda_lacks(fabric) if gin_type == GDA else None)


def check_memory(program: Program, allocation: Allocation, catalogue: Catalogue) -> None:
    """Refuse a program whose ranks cannot fit into their GPUs. Warn on standard error of one that may not fit.

    Nothing is known of a program that does not say what it needs, nor of parts of a GPU. Raises UsageError.
    """
    found = _memory_of_rank(program, allocation, catalogue)
    if found is None:
        return
    memory, accelerator = found
    if memory.needed_gib <= accelerator.memory_gib - RESERVED_GIB:
        return
    what = f"{program.name} needs about {memory.needed_gib:.0f} GiB on each GPU of {allocation.group.instance_type}"
    why = f"an {accelerator.name} has {accelerator.memory_gib} GiB, of which CUDA and NCCL take about {RESERVED_GIB}"
    fix = _with_less_memory(memory)
    if memory.needed_gib > CERTAIN * accelerator.memory_gib:
        raise usage_error(what, why=why, fix=fix)
    print(f"warning: {what}, and {why}: {fix}", file=sys.stderr)


def memory_line(program: Program, allocation: Allocation, catalogue: Catalogue) -> str | None:
    """Return what a rank needs of its GPU, by kind, as one line. None if nothing is known of it."""
    found = _memory_of_rank(program, allocation, catalogue)
    if found is None:
        return None
    memory, accelerator = found
    kinds = ", ".join(f"{kind} {gib:.1f}" for kind, gib in memory.kinds)
    return (
        f"{program.name} needs about {memory.needed_gib:.1f} of {accelerator.memory_gib} GiB on each "
        f"{accelerator.name} of {allocation.group.instance_type}: {kinds}; CUDA and NCCL take about {RESERVED_GIB} more"
    )


def _memory_of_rank(
    program: Program, allocation: Allocation, catalogue: Catalogue
) -> tuple[DeviceMemory, Accelerator] | None:
    """Return what a rank needs, and the GPU that it has for itself."""
    accelerator = catalogue[allocation.group.instance_type].accelerator
    if program.device_memory is None or accelerator is None or accelerator.vendor != "nvidia":
        return None
    if allocation.ranks != accelerator.count:
        return None
    return program.device_memory(allocation.world_size), accelerator


def _with_less_memory(memory: DeviceMemory) -> str:
    if memory.less is None:
        return "use more nodes, or a larger degree of `parallel`"
    key, gib = memory.less
    return f"with `{key}` in the job file it needs about {gib:.0f} GiB"


PIP_HERE = f"{sys.executable} -m pip install {{}}"
PIP_IN_IMAGE = "add {} to `image.packages.pip` of the platform file, run `trainway image lock`, and deploy"


def check_tracker_packages(program: Program, python: Callable[[], TargetPython], fix: str) -> None:
    """Raise UsageError if the Python that runs Trainway's own job lacks the package of a tracker.

    `fix` says how to install a package, whose name stands for `{}`. Another program brings its packages itself. Those
    of an image that the user built are unknown, and the run then says at its start what is missing.
    """
    if not program.trackers.packages:
        return
    try:
        found = python()
    except UsageError:
        return
    for tracker, package in _missing_packages(program, found):
        what = f"{program.name} cannot report to trackers.{tracker}"
        raise usage_error(what, why=f"the package {package} is not installed", fix=fix.format(package))


def _missing_packages(program: Program, python: TargetPython) -> Iterator[tuple[str, str]]:
    for tracker, packages in program.trackers.packages.items():
        for wanted in packages:
            choices = wanted.split("|")
            if not any(each in python.packages for each in choices):
                yield tracker, choices[0]


def check_tracker_rights(program: Program, platform: Platform) -> None:
    """Raise UsageError if the role of the jobs may not report to the MLflow of SageMaker that a job file names."""
    for tracker, arn in program.trackers.of_aws.items():
        if arn == platform.observability.mlflow:
            continue
        allowed = platform.observability.mlflow or "none"
        raise usage_error(
            f"{program.name} cannot report to trackers.{tracker}",
            why=f"jobs on {platform.name} may not call {arn}; `observability.mlflow` of the platform file is {allowed}",
            fix=f"set `observability: {{mlflow: {arn}}}` in the platform file, and deploy",
        )


def check_tracker_network(program: Program, platform: Platform) -> None:
    """Raise UsageError for a tracker on the internet if the network of the platform is closed."""
    if not platform.network.is_closed:
        return
    why = f"{platform.name} has `network.access: closed`, and its nodes cannot reach"
    what = f"{program.name} cannot report to trackers"
    for tracker, (host, fix) in program.trackers.outside.items():
        raise usage_error(f"{what}.{tracker}", why=f"{why} {host}", fix=fix)
    # An existing VPC may have the endpoint: https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-private-link.html
    # (read 2026-11-27)
    if platform.network.existing is None:
        fix = "set `tracking_uri` to a server in your network, or use an existing VPC with the endpoint"
        for tracker in program.trackers.of_aws:
            reason = f"{why} SageMaker's MLflow, for which the VPC has no endpoint"
            raise usage_error(f"{what}.{tracker}", why=reason, fix=fix)


def check_secrets(program: Program, platform: Platform, *, ask: bool = True) -> None:
    """Raise UsageError for a secret that the platform file does not list, or that Secrets Manager does not have.

    Without `ask`, Secrets Manager is not asked.

    A person without the right secretsmanager:DescribeSecret learns of an absent secret when the run starts.
    """
    known = {each.name: each for each in platform.secrets} | {each.secret: each for each in platform.secrets}
    for variable, text in program.secrets.items():
        name = text.partition("#")[0]
        key = f"run.secrets.{variable}" if program.started_by else "trackers"
        what = f"{key}: the secret {name} cannot be read by a job on {platform.name}"
        if name not in known:
            has = ", ".join(each.name for each in platform.secrets) or "none"
            fix = "add its ARN to `secrets` of the platform file, and deploy"
            raise usage_error(what, why=f"the platform file lists {has}", fix=fix)
        if (teams := known[name].teams) and program.team not in teams:
            why = f"it is for jobs of {', '.join(teams)}, and this one is of {program.team or 'no team'}"
            raise usage_error(what, why=why, fix="set `team` of the job file, or change `secrets` of the platform file")
        if not ask:
            continue
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found = boto3.client("secretsmanager", region_name=platform.region).describe_secret(SecretId=name)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                fix = (
                    f"create it: `aws secretsmanager create-secret --name {known[name].name} --secret-string file://…`"
                )
                raise usage_error(what, why=f"{platform.region} has no secret of this name", fix=fix) from None
        except BotoCoreError:
            continue
        else:
            if "DeletedDate" in found:
                fix = f"`aws secretsmanager restore-secret --secret-id {name}` restores it"
                raise usage_error(what, why="it is scheduled for deletion", fix=fix)


def check_inputs(program: Program, hand_off: HandOff) -> None:
    """Raise UsageError for an input that names no object, no prefix with objects, or no bucket.

    Prints a warning to standard error about an input that cannot be looked at, for example without the right to list
    the bucket. The run then finds out.
    """
    for location, uri in _inputs_in_s3(program, hand_off):
        if (why := _why_absent(uri, hand_off.region)) is not None:
            named = f" ({uri})" if uri != location else ""
            fix = f"copy it there, for example with `aws s3 sync DIRECTORY {uri}`, or name another location"
            raise usage_error(f"{program.name} cannot read its input {location}{named}", why=why, fix=fix)


def _inputs_in_s3(program: Program, hand_off: HandOff) -> Iterator[tuple[str, str]]:
    """Yield the inputs in S3 as the job file has them, with their URIs."""
    for location in dict.fromkeys(program.inputs):
        if scheme_of(location) == "s3" or location.startswith("s3://"):
            yield location, located_at(location, {"s3": f"s3://{hand_off.bucket}"})


def _why_absent(uri: str, region: str) -> str | None:
    """Return why nothing can be read there, or None if something can, or if it is unknown."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    key = key.rstrip("/")
    s3 = boto3.client("s3", region_name=region)
    try:
        if s3.list_objects_v2(Bucket=bucket, Prefix=f"{key}/" if key else "", MaxKeys=1)["KeyCount"]:
            return None
        if not key:
            return f"the bucket {bucket} is empty"
        # A list, because a missing object is a forbidden one to those who may list only prefixes of their own.
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
        if key not in (each["Key"] for each in listed):
            return f"the bucket {bucket} has no object {key}, and none below {key}/"
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            return f"there is no bucket {bucket}"
        _warn_of_input(uri, error.response["Error"].get("Message", str(error)))
    except BotoCoreError as error:
        _warn_of_input(uri, str(error))
    return None


def _warn_of_input(uri: str, why: str) -> None:
    what = f"it is unknown whether the input {uri} exists, because it cannot be read: {why}"
    print(f"warning: {what}", file=sys.stderr)


def check_node_groups(file: Path, program: Program, platform: Platform, catalogue: Catalogue) -> None:
    """Raise SpecError if the program of a job file can use the accelerators of no node group that has some.

    A platform without accelerators trains on the CPU.
    """
    found = [(group, catalogue[group.instance_type].accelerator) for group in platform.node_groups]
    accelerated = [(group, accelerator) for group, accelerator in found if accelerator]
    if accelerated and not any(is_usable(program, accelerator) for _, accelerator in accelerated):
        group, accelerator = accelerated[0]
        why = f"the job cannot train on {platform.name}: {why_unusable(group.instance_type, accelerator)}"
        raise SpecError([read_document(file).problem(("model",), why, FIX_ACCELERATOR)])
