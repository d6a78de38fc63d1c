"""`trainway launch`, `resume` and `sync`: a job file becomes a run, on any target."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.launch_options import LaunchOptions
from trainway.commands.options import takes_options
from trainway.commands.platform_file import DEFAULT_PLATFORM, DeployedPlatformFile
from trainway.commands.printing import show
from trainway.commands.progress import working
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.commands.target_flags import TargetFlags
    from trainway.launch.job_file.sweep import Point
    from trainway.launch.starting.prepare import Launch
    from trainway.launch.target.known import AnyTarget

_OF_JOB_FILES = (".yaml", ".yml", ".json")

# Options that a target without a platform does not support.
_OF_PLATFORMS = ("allow_tcp", "code", "group", "image")


@takes_options
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
    *,
    options: LaunchOptions,
) -> None:
    """Launch a training job, or any program, on this machine or on a platform.

    The section `life_cycle` of the job file sets how often the run and its processes restart after a failure, and how
    long Kubernetes keeps the object of a finished run. docs/launch-kubernetes.md describes its keys.
    """
    from trainway.launch.registry.platform_file import platform_file_named
    from trainway.launch.starting.interactive import open_shell
    from trainway.launch.starting.start import start
    from trainway.launch.target.known import target_named

    if options.full and not options.dry_run:
        why, fix = "only a dry run prints what would be submitted", "add --dry-run, or leave --full out"
        raise usage_error("--full cannot be used without --dry-run", why=why, fix=fix)
    words, platform_file = job or [], options.platform_file
    given: TargetFlags = context.obj
    target_name = given.target
    if options.wherever:
        if _is_said(context, "platform_file") or _is_said(context, "target"):
            why = "it chooses the platform, and the target with it"
            raise usage_error("--wherever with --platform or --target", why=why, fix="leave one of them out")
        platform_file, target_name = _choose(words, options, borrows=bool(given.values.get("borrow")))
    target = target_named(target_name, cannot="launched")
    said = _said_of_target(context, target, given)
    if target.orchestrators or _is_said(context, "platform_file"):
        platform_file = platform_file_named(platform_file)
    submit = open_shell if options.interactive else start
    if exit_status := submit(target, _asked(words, options, platform_file), said):
        raise typer.Exit(exit_status)


def _choose(words: list[str], options: LaunchOptions, *, borrows: bool) -> tuple[Path, str]:
    """Return the platform file and the target of the connected platform that suits the jobs best, and say why."""
    from trainway.extensions.wherever import choose
    from trainway.launch.target.known import own_target
    from trainway.spec.facts.catalogue import load_catalogue

    # The runs of a sweep need the same nodes.
    points = _points(words, replace(options, sweep=None, array=None, until_step=None))
    programs = [point.program for point in points]
    best, found = choose(programs, load_catalogue(), options.group, borrows=borrows)
    for each in found:
        print(f"{'chosen: ' if each is best else '        '}{each.sentence()}", file=sys.stderr)
    return best.file, own_target(best.platform).name


def _said_of_target(context: typer.Context, target: AnyTarget, given: TargetFlags) -> dict[str, Any]:
    """Return the options of a target that are on the command line, by the names of their flags.

    Raises UsageError for an option on the command line that the target does not have.
    """
    from trainway.launch.target.options import not_supported

    flags, own = given.values, given.of_targets[target.name]
    refused = [*(name for name in flags if name not in own), *(() if target.orchestrators else _OF_PLATFORMS)]
    for name in sorted(refused):
        if _is_said(context, name):
            raise not_supported(name, target.name)
    return {name: flags[name] for name in own if _is_said(context, name)}


def _asked(words: list[str], options: LaunchOptions, platform_file: Path) -> Launch:
    """Return the launch that a command line asks for. Raises UsageError if --run names the run of a sweep."""
    from trainway.launch.starting.prepare import Launch

    points = _points(words, options)
    if options.run is not None and len(points) > 1:
        raise usage_error(f"--run {options.run} cannot be a sweep", why="it is one run", fix="leave --run out")
    return Launch(
        points,
        platform_file,
        run=options.run,
        group=options.group,
        code=None if options.code is None else str(options.code),
        image=options.image,
        allow_tcp=options.allow_tcp,
        dry_run=options.dry_run,
        full=options.full,
    )


def _points(words: list[str], options: LaunchOptions) -> list[Point]:
    """Return the programs of a launch. Raises UsageError for options that do not go together."""
    from trainway.launch.job_file.programs import KEYS_OF_FLAGS, CommandFlags, interactive_program
    from trainway.launch.job_file.sweep import Point, array_axis
    from trainway.launch.starting.start import is_job_file, points_of, points_of_command

    command = options.command
    flags = CommandFlags(command.nodes, command.team, command.env or (), command.packages or ())
    axes = [*(options.sweep or []), *([] if options.array is None else [array_axis(options.array)])]
    in_file = is_job_file(words)
    if in_file and (flag := flags.first):
        why, fix = "the job file says it", f"set `{KEYS_OF_FLAGS[flag]}` in {words[0]}"
        raise usage_error(f"{flag} cannot be used with a job file", why=why, fix=fix)
    if not in_file and options.until_step is not None:
        why = "Trainway does not count the steps of a command"
        raise usage_error("--until-step cannot be used with a command", why=why, fix="leave it out")
    if options.interactive:
        if axes or (words and not in_file):
            why = "the shell takes the place of the program, once"
            fix = "name a job file or nothing, and leave --sweep and --array out"
            raise usage_error("--interactive cannot be launched like that", why=why, fix=fix)
        return [Point(interactive_program(Path(words[0]) if words else None, flags), {})]
    if not words:
        fix = "name a job file, or a command that every node runs: `trainway launch train.py`"
        raise usage_error("there is nothing to launch", why="neither a job file nor a command is given", fix=fix)
    if in_file and Path(words[0]).suffix not in _OF_JOB_FILES and not Path(words[0]).exists():
        why = "it is neither a file nor a program on PATH"
        fix = "name a job file, or the words of a command one by one; a shell takes them as one: `-- bash -c '…'`"
        raise usage_error(f"{words[0]} cannot be launched", why=why, fix=fix)
    if in_file:
        return points_of(Path(words[0]), axes, options.until_step)
    return points_of_command(words, axes, flags)


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
