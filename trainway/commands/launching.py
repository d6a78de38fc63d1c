"""`trainway launch`, `resume` and `sync`: a job file becomes a run, on any target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trainway.spec.errors import usage_error

DEFAULT_PLATFORM = Path("platform.yaml")
PlatformFile = Annotated[Path, typer.Option("--platform", help="The platform file.")]

_HERE = "On this machine"
_SLURM = "Under Slurm"
_KUBERNETES = "On Kubernetes"
_SAGEMAKER = "On SageMaker"
_PLATFORM = "On a platform"


def launch(
    context: typer.Context,
    job_file: Annotated[Path, typer.Argument(metavar="JOB", help="A job file.")],
    target: Annotated[
        Literal["local", "slurm", "kubernetes", "sagemaker"], typer.Option(help="Where to run it.")
    ] = "local",
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    run: Annotated[
        str | None, typer.Option(help="Directory of a local run, or name of another; one that exists goes on.")
    ] = None,
    until_step: Annotated[int | None, typer.Option(min=1, help="Stop after this step, to go on later.")] = None,
    sweep: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE,…", help="A job for each value; again for a grid.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted, and submit nothing.")] = (
        False
    ),
    processes: Annotated[int, typer.Option(min=1, help="Ranks on this machine.", rich_help_panel=_HERE)] = 2,
    group: Annotated[
        str | None, typer.Option(help="The node group; else the first that is large enough.", rich_help_panel=_PLATFORM)
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option(help="Packages of yours that come before the image's own code.", rich_help_panel=_PLATFORM),
    ] = None,
    borrow: Annotated[
        bool, typer.Option("--borrow", help="On nodes that other teams leave idle.", rich_help_panel=_SLURM)
    ] = False,
    time_limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="MINUTES", help="When it saves itself and ends; on SageMaker too.", rich_help_panel=_SLURM
        ),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="A virtual environment on the file system, not the image.", rich_help_panel=_SLURM
        ),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Your login name on the cluster.", rich_help_panel=_SLURM)] = None,
    kind: Annotated[
        Literal["TrainJob", "PyTorchJob", "HyperPodPyTorchJob", "MPIJob"] | None,
        typer.Option(
            help="Kind of object that runs the job. Default: TrainJob, and PyTorchJob on HyperPod.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = None,
    priority: Annotated[
        Literal["low", "normal", "high"] | None,
        typer.Option(help="Which of the team's own jobs goes first.", rich_help_panel=_KUBERNETES),
    ] = None,
    min_nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Continue with at least N nodes when nodes are lost. Default: all nodes.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Run only on nodes with one value of this node label, for example below one switch. Default: as close "
            "together as there is room.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = None,
    hang_seconds: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="S",
            help="Restart the job when no step ends for S seconds (HyperPodPyTorchJob only). Default: 1800.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = None,
    slow_step_seconds: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="S",
            help="Restart the job after five consecutive steps slower than S seconds (HyperPodPyTorchJob only).",
            rich_help_panel=_KUBERNETES,
        ),
    ] = None,
    loss_above: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LOSS",
            help="Restart the job after five consecutive losses above LOSS (HyperPodPyTorchJob only).",
            rich_help_panel=_KUBERNETES,
        ),
    ] = None,
    data: Annotated[
        Literal["s3", "fast-file", "file", "fsx"],
        typer.Option(help="From where it reads its tokens.", rich_help_panel=_SAGEMAKER),
    ] = "s3",
    spot: Annotated[
        bool, typer.Option("--spot", help="On nodes that may be taken back.", rich_help_panel=_SAGEMAKER)
    ] = False,
    wait: Annotated[
        int | None, typer.Option(metavar="MINUTES", help="How long it waits for nodes.", rich_help_panel=_SAGEMAKER)
    ] = None,
    retries: Annotated[
        int | None, typer.Option(help="Starts after an error of SageMaker's own.", rich_help_panel=_SAGEMAKER)
    ] = None,
    keep_warm: Annotated[
        int,
        typer.Option(metavar="MINUTES", help="How long its nodes wait for the next job.", rich_help_panel=_SAGEMAKER),
    ] = 0,
    training_plan: Annotated[
        str | None, typer.Option(metavar="ARN", help="A plan whose nodes it uses.", rich_help_panel=_SAGEMAKER)
    ] = None,
    volume_gb: Annotated[int | None, typer.Option(help="Each node's disk.", rich_help_panel=_SAGEMAKER)] = None,
    volume_key: Annotated[
        str | None, typer.Option(metavar="ARN", help="The KMS key of that.", rich_help_panel=_SAGEMAKER)
    ] = None,
    encrypt_traffic: Annotated[
        bool, typer.Option("--encrypt-traffic", help="Between nodes; slower.", rich_help_panel=_SAGEMAKER)
    ] = False,
    check_nodes: Annotated[
        bool, typer.Option(help="Whether GPUs and network are tested first.", rich_help_panel=_SAGEMAKER)
    ] = True,
    shell: Annotated[
        bool, typer.Option("--shell", help="Let `trainway shell` open some.", rich_help_panel=_SAGEMAKER)
    ] = False,
) -> None:
    """Run a training job, on this machine or on a platform.

    The section `life_cycle` of the job file sets how often the run and its processes start again after a failure, and
    how long the object of a finished run stays in Kubernetes: docs/launch-kubernetes.md.
    """
    from trainway.launch.start import points_of, start_here, start_on_platform

    on_platform = {"group": group, "code": None if code is None else str(code)}
    of_target: dict[str, dict[str, Any]] = {
        "local": {"processes": processes},
        "slurm": {"borrow": borrow, "time_limit": time_limit, "environment": environment, "user": user},
        "kubernetes": {
            "kind": kind,
            "priority": priority,
            "min_nodes": min_nodes,
            "within": within,
            "hang_seconds": hang_seconds,
            "slow_step_seconds": slow_step_seconds,
            "loss_above": loss_above,
        },
        "sagemaker": {
            "data": data,
            "time_limit": time_limit,
            "spot": spot,
            "wait": wait,
            "retries": retries,
            "keep_warm": keep_warm,
            "training_plan": training_plan,
            "volume_gb": volume_gb,
            "volume_key": volume_key,
            "encrypt_traffic": encrypt_traffic,
            "check_nodes": check_nodes,
            "shell": shell,
        },
    }
    options = of_target.pop(target)
    others = {option for each in of_target.values() for option in each} - set(options)
    _refuse(context, others | (set(on_platform) if target == "local" else set()), target)
    points = points_of(job_file, sweep or [])
    if run is not None and len(points) > 1:
        raise usage_error(f"--run {run} cannot be a sweep", why="it is one run", fix="leave --run out")
    if target == "local":
        options["until_step"] = until_step
        if exit_status := start_here(points, platform_file, options, run=run, dry_run=dry_run):
            raise typer.Exit(exit_status)
        return
    start_on_platform(
        points,
        target,
        platform_file,
        options,
        **on_platform,
        until_step=until_step,
        run=run,
        dry_run=dry_run,
    )


def resume(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run that ended early; `trainway status` lists them.")],
) -> None:
    """Let a run go on from its newest checkpoint, where and as it was launched."""
    from trainway.launch.start import resume as start_again

    if exit_status := start_again(name):
        raise typer.Exit(exit_status)


def sync(
    directory: Annotated[Path, typer.Argument(help="What holds your packages.")] = Path(),
    platform_file: PlatformFile = DEFAULT_PLATFORM,
) -> None:
    """Upload code, and print where jobs fetch it; `trainway launch --code` does both."""
    from trainway.launch.code import sync as upload
    from trainway.launch.hand_off import read_hand_off
    from trainway.spec.loader import load_platform

    print(upload(directory, read_hand_off(load_platform(platform_file))))


def _refuse(context: typer.Context, options: set[str], target: str) -> None:
    """Raises UsageError for an option that was given and that the target would ignore."""
    for option in sorted(options):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise usage_error(
                f"--{option.replace('_', '-')} says nothing to the target {target}",
                why="it is another target's",
                fix="leave it out, or name the --target that it is meant for; `trainway launch --help` sorts them",
            )
