"""The options of `trainway launch` that do not belong to a target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, DeployedPlatformFile
from trainway.commands.target_flags import ON_PLATFORM


@dataclass(frozen=True)
class CommandOptions:
    """Options that describe a command without a job file."""

    nodes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of nodes of a command without a job file. Default: 1."),
    ] = None
    team: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Team of the platform whose quota a command without a job file uses. Default: no team."
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Environment variable of a command without a job file, as run.environment of a job file. NAME alone "
            "takes the value of the shell that launches. Repeat it for further variables. Default: no variables.",
        ),
    ] = None
    packages: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE | NAME",
            help="Python package of a command without a job file, for example trl==1.16.0, or a file with "
            "requirements, as run.packages of a job file. Repeat it for further packages. Default: the packages of the "
            "image.",
        ),
    ] = None


@dataclass(frozen=True)
class LaunchOptions:
    """Options of a launch on any target, and those of targets on a platform."""

    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the run, or directory of a local run. If the run exists, training resumes from its latest "
            "checkpoint. Default: the job's name and the time.",
        ),
    ] = None
    until_step: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Save a checkpoint and stop after step N. The learning rate schedule stays that of the whole job. "
            "Default: the last step.",
        ),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,…",
            help="Launch one run for each value of a key of the job file, for example "
            "optimizer.learning_rate=1e-4,3e-4. Repeat the option for a grid.",
        ),
    ] = None
    array: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Launch N runs of the program, each with its number from 0 in TRAINWAY_ARRAY_INDEX. Default: one run "
            "without a number.",
        ),
    ] = None
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            help="Open a shell on the first node in place of the program. The nodes are free when the shell ends. "
            "(slurm and kubernetes only)",
        ),
    ] = False
    command: CommandOptions = CommandOptions()
    wherever: Annotated[
        bool,
        typer.Option(
            "--wherever",
            help="Choose among the platforms of `trainway connect`: one that the job fits, with free nodes, and the "
            "cheapest of these. Say on standard error why. Default: the platform of the platform file.",
        ),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print what would be submitted, with one line in the place of Trainway's own files. Submit nothing.",
        ),
    ] = False
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Print exactly what would be submitted, with Trainway's own files. Only together with --dry-run.",
        ),
    ] = False
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run on this node group. Default: the first node group that is large enough.",
            rich_help_panel=ON_PLATFORM,
        ),
    ] = None
    image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run in this image of the platform file's `images`. Default: the image that the job file names, or "
            "else the node group's.",
            rich_help_panel=ON_PLATFORM,
        ),
    ] = None
    allow_tcp: Annotated[
        bool,
        typer.Option(
            "--allow-tcp",
            help="Let NCCL use TCP between nodes with EFA. Without it, NCCL ends the job if it cannot use EFA.",
            rich_help_panel=ON_PLATFORM,
        ),
    ] = False
    code: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Upload the Python packages in this directory, and import them in place of the image's own.",
            rich_help_panel=ON_PLATFORM,
        ),
    ] = None
