"""`trainway launch`, `resume` and `sync`: a job file becomes a run, on any target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainway.commands.target_flags import ON_PLATFORM
from trainway.spec.errors import usage_error

DEFAULT_PLATFORM = Path("platform.yaml")
PlatformFile = Annotated[Path, typer.Option("--platform", help="Path of the platform file.")]

# Options that a target without a platform does not support.
_OF_PLATFORMS = ("code", "group")


def launch(
    context: typer.Context,
    job_file: Annotated[Path, typer.Argument(metavar="JOB", help="Path of the job file.")],
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the run, or directory of a local run. If the run exists, training resumes from its latest "
            "checkpoint. Default: the job's name and the time.",
        ),
    ] = None,
    until_step: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Save a checkpoint and stop after step N. The learning rate schedule stays that of the whole job. "
            "Default: the last step.",
        ),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,…",
            help="Launch one run for each value of a key of the job file, for example "
            "optimizer.learning_rate=1e-4,3e-4. Repeat the option for a grid.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted. Submit nothing.")] = (
        False
    ),
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run on this node group. Default: the first node group that is large enough.",
            rich_help_panel=ON_PLATFORM,
        ),
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Upload the Python packages in this directory, and import them in place of the image's own.",
            rich_help_panel=ON_PLATFORM,
        ),
    ] = None,
) -> None:
    """Launch a training job on this machine or on a platform.

    The section `life_cycle` of the job file sets how often the run and its processes restart after a failure, and how
    long Kubernetes keeps the object of a finished run. docs/launch-kubernetes.md describes its keys.
    """
    from trainway.launch.prepare import Launch
    from trainway.launch.start import points_of, start
    from trainway.launch.target_options import declared_options, not_supported
    from trainway.launch.targets import target_named

    said = dict(context.obj)
    target = target_named(said.pop("target"), cannot="launched")
    own = [each.name for each in declared_options(target.options)]
    refused = [*(name for name in said if name not in own), *(() if target.orchestrators else _OF_PLATFORMS)]
    for name in sorted(refused):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise not_supported(name, target.name)
    points = points_of(job_file, sweep or [])
    if run is not None and len(points) > 1:
        raise usage_error(f"--run {run} cannot be a sweep", why="it is one run", fix="leave --run out")
    asked = Launch(
        points,
        platform_file,
        run=run,
        group=group,
        code=None if code is None else str(code),
        until_step=until_step,
        dry_run=dry_run,
    )
    if exit_status := start(target.name, asked, {name: said[name] for name in own}):
        raise typer.Exit(exit_status)


def resume(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Name or directory of a run that ended early. `trainway status` lists the runs."
        ),
    ],
) -> None:
    """Resume a run from its latest checkpoint, on the same target and with the same options."""
    from trainway.launch.start import resume as start_again

    if exit_status := start_again(name):
        raise typer.Exit(exit_status)


def sync(
    directory: Annotated[Path, typer.Argument(help="Directory that holds your Python packages.")] = Path(),
    platform_file: PlatformFile = DEFAULT_PLATFORM,
) -> None:
    """Upload code and print its location. `trainway launch --code` uploads the code and uses it."""
    from trainway.launch.code import sync as upload
    from trainway.launch.hand_off import read_hand_off
    from trainway.spec.loader import load_platform

    print(upload(directory, read_hand_off(load_platform(platform_file))))
