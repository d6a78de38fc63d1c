"""`trainway launch`, `resume` and `sync`: a job file becomes a run, on any target."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, DeployedPlatformFile
from trainway.commands.printing import show
from trainway.commands.progress import working
from trainway.commands.target_flags import ON_PLATFORM
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.launch.job_file.command_flags import CommandFlags
    from trainway.launch.job_file.sweep import Point

_OF_JOB_FILES = (".yaml", ".yml", ".json")

# Options that a target without a platform does not support.
_OF_PLATFORMS = ("code", "group", "image")


def launch(
    context: typer.Context,
    job: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB | [--] COMMAND…",
            help="Path of the job file. Or a command, which every node runs in the code of the current directory. "
            "Write -- before a command with options. torchrun starts a single Python file.",
        ),
    ] = None,
    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM,
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
    array: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Launch N runs of the program, each with its number from 0 in TRAINWAY_ARRAY_INDEX. Default: one run "
            "without a number.",
        ),
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            help="Open a shell on the first node in place of the program. The nodes are free when the shell ends. "
            "(slurm and kubernetes only)",
        ),
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of nodes of a command without a job file. Default: 1."),
    ] = None,
    team: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Team of the platform whose quota a command without a job file uses. Default: no team."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Environment variable of a command without a job file, as run.environment of a job file. NAME alone "
            "takes the value of the shell that launches. Repeat it for further variables. Default: no variables.",
        ),
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE | NAME",
            help="Python package of a command without a job file, for example trl==1.16.0, or a file with "
            "requirements, as run.packages of a job file. Repeat it for further packages. Default: the packages of the "
            "image.",
        ),
    ] = None,
    wherever: Annotated[
        bool,
        typer.Option(
            "--wherever",
            help="Choose among the platforms of `trainway connect`: one that the job fits, with free nodes, and the "
            "cheapest of these. Say on standard error why. Default: the platform of the platform file.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print what would be submitted, with one line in the place of Trainway's own files. Submit nothing.",
        ),
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Print exactly what would be submitted, with Trainway's own files. Only together with --dry-run.",
        ),
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run on this node group. Default: the first node group that is large enough.",
            rich_help_panel=ON_PLATFORM,
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run in this image of the platform file's `images`. Default: the image that the job file names, or "
            "else the node group's.",
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
    """Launch a training job, or any program, on this machine or on a platform.

    The section `life_cycle` of the job file sets how often the run and its processes restart after a failure, and how
    long Kubernetes keeps the object of a finished run. docs/launch-kubernetes.md describes its keys.
    """
    from trainway.launch.job_file.command_flags import CommandFlags
    from trainway.launch.job_file.sweep import array_axis
    from trainway.launch.registry.platform_file import platform_file_named
    from trainway.launch.starting.interactive import open_shell
    from trainway.launch.starting.prepare import Launch
    from trainway.launch.starting.start import start
    from trainway.launch.target.known import target_named
    from trainway.launch.target.options import declared_options, not_supported

    if full and not dry_run:
        why, fix = "only a dry run prints what would be submitted", "add --dry-run, or leave --full out"
        raise usage_error("--full cannot be used without --dry-run", why=why, fix=fix)
    described = CommandFlags(nodes, team, env or (), packages or ())
    flags = dict(context.obj)
    target_name = flags.pop("target")
    if wherever:
        if _is_said(context, "platform_file") or _is_said(context, "target"):
            why = "it chooses the platform, and the target with it"
            raise usage_error("--wherever with --platform or --target", why=why, fix="leave one of them out")
        points = _points(job or [], [], described, None, interactive=interactive)
        platform_file, target_name = _choose(points, group, borrows=bool(flags.get("borrow")))
    target = target_named(target_name, cannot="launched")
    own = [each.name for each in declared_options(target.options)]
    refused = [*(name for name in flags if name not in own), *(() if target.orchestrators else _OF_PLATFORMS)]
    for name in sorted(refused):
        if _is_said(context, name):
            raise not_supported(name, target.name)
    if target.orchestrators or _is_said(context, "platform_file"):
        platform_file = platform_file_named(platform_file)
    axes = [*(sweep or []), *([] if array is None else [array_axis(array)])]
    points = _points(job or [], axes, described, until_step, interactive=interactive)
    if run is not None and len(points) > 1:
        raise usage_error(f"--run {run} cannot be a sweep", why="it is one run", fix="leave --run out")
    asked = Launch(
        points,
        platform_file,
        run=run,
        group=group,
        code=None if code is None else str(code),
        image=image,
        dry_run=dry_run,
        full=full,
    )
    submit = open_shell if interactive else start
    if exit_status := submit(target.name, asked, {name: flags[name] for name in own if _is_said(context, name)}):
        raise typer.Exit(exit_status)


def _choose(points: list[Point], group: str | None, *, borrows: bool) -> tuple[Path, str]:
    """Return the platform file and the target of the connected platform that suits the jobs best, and say why."""
    from trainway.extensions.wherever import choose
    from trainway.launch.target.known import own_target
    from trainway.spec.facts.catalogue import load_catalogue

    best, found = choose([point.program for point in points], load_catalogue(), group, borrows=borrows)
    for each in found:
        print(f"{'chosen: ' if each is best else '        '}{each.sentence()}", file=sys.stderr)
    return best.file, own_target(best.platform).name


def _points(
    job: list[str], axes: list[str], flags: CommandFlags, until_step: int | None, *, interactive: bool
) -> list[Point]:
    """Return the programs of a launch. Raises UsageError for flags that do not go together."""
    from trainway.launch.job_file.command_flags import KEYS
    from trainway.launch.job_file.programs import interactive_program
    from trainway.launch.job_file.sweep import Point
    from trainway.launch.starting.start import is_job_file, points_of, points_of_command

    in_file = is_job_file(job)
    if in_file and (flag := flags.first):
        why, fix = "the job file says it", f"set `{KEYS[flag]}` in {job[0]}"
        raise usage_error(f"{flag} cannot be used with a job file", why=why, fix=fix)
    if not in_file and until_step is not None:
        why = "Trainway does not count the steps of a command"
        raise usage_error("--until-step cannot be used with a command", why=why, fix="leave it out")
    if interactive:
        if axes or (job and not in_file):
            why = "the shell takes the place of the program, once"
            fix = "name a job file or nothing, and leave --sweep and --array out"
            raise usage_error("--interactive cannot be launched like that", why=why, fix=fix)
        return [Point(interactive_program(Path(job[0]) if job else None, flags), {})]
    if not job:
        fix = "name a job file, or a command that every node runs: `trainway launch train.py`"
        raise usage_error("there is nothing to launch", why="neither a job file nor a command is given", fix=fix)
    if in_file and Path(job[0]).suffix not in _OF_JOB_FILES and not Path(job[0]).exists():
        why = "it is neither a file nor a program on PATH"
        fix = "name a job file, or the words of a command one by one; a shell takes them as one: `-- bash -c '…'`"
        raise usage_error(f"{job[0]} cannot be launched", why=why, fix=fix)
    if in_file:
        return points_of(Path(job[0]), axes, until_step)
    return points_of_command(job, axes, flags)


def _is_said(context: typer.Context, name: str) -> bool:
    """Return whether a flag is on the command line. A default would override the job file."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def tune(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="Path of the job file of a training job.")],
    instance_type: Annotated[
        str,
        typer.Option(metavar="TYPE", help="Instance type of the nodes, for example p5.48xlarge."),
    ],
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Print the N fastest layouts.")] = 10,
    measure: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="STEPS",
            help="Run this many steps of each printed layout on this machine, for example 10, and print their median "
            "time beside the estimate. The machine must have all GPUs of the job. Default: nothing is run.",
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a job file for each printed layout into this directory, to launch them on a platform. "
            "Default: no file is written.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the layouts as JSON. Not together with --measure.")
    ] = False,
) -> None:
    """Propose layouts of a training job that fit the GPUs, fastest first by an estimate.

    The layouts differ in `parallel`, `batch.micro`, and `memory`. The batch of a step stays.
    """
    from trainway.launch.tuning.layout_runs import write_job_files
    from trainway.launch.tuning.tuning import as_document, check_measurable, measured, shown, tuned
    from trainway.spec.facts.catalogue import load_catalogue

    if as_json and measure is not None:
        why = "measurements are printed as they are known"
        raise usage_error("--json cannot be used with --measure", why=why, fix="leave out one of them")
    with working("looking for layouts"):
        found = tuned(job, instance_type, count, load_catalogue())
    if measure is not None:
        check_measurable(found)
    written = write_job_files(job, [each.changes for each in found.fastest], write) if write else []
    if as_json:
        print(json.dumps(as_document(found) | {"written": [str(file) for file in written]}, indent=2))
        return
    if measure is None:
        show(shown(found))
    else:
        for line in measured(found, measure):
            print(line, flush=True)
    for file in written:
        print(f"written: {file}")


def resume(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Name or directory of a run that ended early. `trainway status` lists the runs."
        ),
    ],
    code: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            exists=True,
            file_okay=False,
            help="Directory with changed code. The run's record and report then name the files that differ. Default: "
            "the code of the launch, and on this machine its directory as it is now.",
        ),
    ] = None,
    from_scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch",
            help="Begin at the first step although the checkpoints or the outputs that the run had are gone. Without "
            "it, such a run fails before its first step.",
        ),
    ] = False,
) -> None:
    """Resume a run from its latest checkpoint, on the same target, with the same options and the same code."""
    from trainway.launch.starting.start import resume as start_again

    if exit_status := start_again(name, None if code is None else str(code.absolute()), from_scratch=from_scratch):
        raise typer.Exit(exit_status)


def sync(
    directory: Annotated[Path, typer.Argument(help="Directory that holds your Python packages.")] = Path(),
    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM,
    team: Annotated[
        str | None,
        typer.Option(
            metavar="TEAM",
            help="Team whose jobs use the code. Required on a platform whose teams have prefixes of their own. "
            "Default: no team.",
        ),
    ] = None,
) -> None:
    """Upload code and print its location. `trainway launch --code` uploads the code and uses it."""
    from trainway.launch.platform.hand_off import read_hand_off
    from trainway.launch.registry.platform_file import platform_file_named
    from trainway.launch.starting.code import sync as upload
    from trainway.spec.loader import load_platform

    with working(f"uploading the code of {directory}"):
        platform = load_platform(platform_file_named(platform_file))
        location = upload(directory, read_hand_off(platform), team=team)
    print(location)
