"""The `trainway` command. Every import that takes time is inside the command that needs it."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

from trainway.commands import (
    beginning,
    buying,
    changing,
    checking,
    connecting,
    diagnosing,
    images,
    launching,
    listing,
    live,
    planning,
    reporting,
    validating,
    watching,
    workspaces,
)
from trainway.commands.examples import add_examples
from trainway.commands.launching import DEFAULT_PLATFORM, PlatformFile
from trainway.commands.printing import show
from trainway.commands.progress import working
from trainway.commands.target_flags import LaunchCommand
from trainway.parts.endings import ToldToEnd, end_on_signals, takes_no_more
from trainway.spec.errors import UsageError, usage_error

if TYPE_CHECKING:
    from trainway.spec.platform import Platform

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
emulator_app = typer.Typer(help="Run an emulated AWS on this machine.", no_args_is_help=True)
app.add_typer(emulator_app, name="emulator")


def _print_version(wanted: bool) -> None:
    if wanted:
        from trainway import __version__

        print(f"trainway {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """A distributed-training platform on AWS from one file, and the job that runs on it."""


app.command()(beginning.init)
app.command()(validating.check)
app.command()(validating.rules)
app.command()(validating.schema)
app.command()(listing.instances)
app.command()(planning.plan)
app.command()(buying.capacity)
app.command()(checking.preflight)
app.command()(checking.doctor)
app.command()(changing.lock)
app.command()(changing.upgrade)
app.command()(changing.diff)


@app.command()
def alarms(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
) -> None:
    """Print the platform's alarms as a rule file, for a Prometheus of yours that scrapes the nodes and the runs."""
    import yaml

    from trainway.monitoring.rules import rule_document
    from trainway.spec.facts.catalogue import load_catalogue

    document = rule_document(_platform(file), load_catalogue())
    print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000), end="")


@app.command()
def dashboard(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
) -> None:
    """Print the platform's dashboard as JSON, to import into a Grafana of yours that reads the metrics."""
    from trainway.monitoring.grafana import grafana_dashboard
    from trainway.spec.facts.catalogue import load_catalogue

    print(json.dumps(grafana_dashboard(_platform(file), load_catalogue()), indent=2))


@app.command()
def adopt(
    resource: Annotated[str, typer.Argument(metavar="ID", help="ID of your VPC or Lustre file system.")],
    file: PlatformFile = DEFAULT_PLATFORM,
    subnet: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ID",
            help="Use your subnet ID as the subnet NAME of `trainway plan`. Repeat the option for each subnet.",
        ),
    ] = None,
    security_group: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Security group of the nodes, or of the file system. Default: a new one for the nodes."
        ),
    ] = None,
    route_table: Annotated[str | None, typer.Option(metavar="ID", help="Route table of new subnets.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the section as JSON instead of YAML.")] = False,
) -> None:
    """Inspect your VPC or Lustre file system, and print the section of the platform file that uses it."""
    if resource.startswith("fs-"):
        from trainway.adopt_file_system import look_at_file_system

        with working(f"reading {resource} from AWS"):
            theirs = look_at_file_system(resource, region=_platform(file).region, security_group_id=security_group)
        lustre = {"existing": theirs.model_dump(mode="json", exclude_defaults=True)}
        _print_section({"storage": {"lustre": lustre}}, as_json=as_json)
        return
    from trainway.adopt import look_at_network
    from trainway.spec.derived.addressing import plan_addresses
    from trainway.spec.derived.subnets import SubnetRole
    from trainway.spec.facts.catalogue import load_catalogue

    platform = _platform(file)
    planned = plan_addresses(platform, load_catalogue()).subnets
    # In a VPC that exists the way out is there, and so are its public subnets.
    names = {each.name for each in planned if each.role is not SubnetRole.PUBLIC}
    subnets = dict(each.partition("=")[::2] for each in subnet or [])
    if unknown := [name for name in subnets if name not in names]:
        raise usage_error(
            f"--subnet {unknown[0]}={subnets[unknown[0]]} cannot be used",
            why=f"{platform.name} has no subnet {unknown[0]}",
            fix=f"its subnets are {', '.join(sorted(names))}",
        )
    with working(f"reading {resource} from AWS"):
        found = look_at_network(
            resource,
            platform=platform.name,
            region=platform.region,
            subnets=subnets,
            security_group_id=security_group,
            route_table_id=route_table,
            known=platform.network.existing.cidrs if platform.network.existing else (),
        )
    section = {"network": {"existing": found.model_dump(mode="json", exclude_none=True, exclude_defaults=True)}}
    _print_section(section, as_json=as_json)


def _print_section(section: dict[str, Any], *, as_json: bool) -> None:
    """Print a section of a platform file."""
    import yaml

    text = json.dumps(section, indent=2) + "\n" if as_json else yaml.safe_dump(section, sort_keys=False)
    print(text, end="")


@app.command()
def manifests(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    out: Annotated[
        Path,
        typer.Option(
            help="Directory of the files. The command creates it, and deletes files that it wrote there before."
        ),
    ] = Path("manifests"),
    deployed: Annotated[
        bool,
        typer.Option(
            "--deployed", help="Fill in values of the deployed platform, such as IDs. Default: leave placeholders."
        ),
    ] = False,
) -> None:
    """Write the Kubernetes objects and chart values that the deploy applies."""
    from trainway.launch.platform.hand_off import read_hand_off
    from trainway.manifests.export import export_manifests
    from trainway.spec.facts.catalogue import load_catalogue

    platform = _platform(file)
    hand_off = read_hand_off(platform) if deployed else None
    written, open_names = export_manifests(platform, load_catalogue(), out, hand_off)
    print(f"{len(written)} files in {out}")
    if open_names:
        print(f"placeholders, which --deployed fills in: {', '.join(open_names)}", file=sys.stderr)


app.command(cls=LaunchCommand)(launching.launch)
app.command()(launching.tune)
app.command()(connecting.connect)
app.add_typer(connecting.runs_app, name="runs")
app.command()(watching.status)
app.command()(live.top)
app.command()(watching.logs)
app.command()(watching.stop)
app.command()(launching.resume)
app.command()(watching.shell)
app.command()(watching.forward)
app.command()(watching.copy)
app.command()(diagnosing.explain)
app.command()(diagnosing.verify)
app.command()(launching.sync)
app.add_typer(workspaces.app, name="workspace")
app.add_typer(images.app, name="image")
app.command()(reporting.report)


@app.command()
def demo(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    job_file: Annotated[
        Path | None, typer.Option("--job", help="Path of the job file. Default: examples/jobs/tiny.yaml of Trainway.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="Start N ranks on this machine.")] = 2,
    run: Annotated[
        Path | None, typer.Option(help="Directory of the run. Default: the job's name and the time, in runs/.")
    ] = None,
) -> None:
    """Deploy a platform to an emulated AWS, train on this machine with its hand-off, and write the report."""
    from trainway.demo import run_demo
    from trainway.parts.checkout import CHECKOUT

    job_file = job_file or CHECKOUT / "examples/jobs/tiny.yaml"
    run_demo(platform_file, job_file, processes=processes, run=run)


@app.command("app")
def app_command() -> None:
    """Print the command of the CDK app, for `cdk --app "$(trainway app)" --context platform=platform.yaml synth`."""
    from trainway.parts.checkout import cdk_app
    from trainway.parts.extras import require_extras

    require_extras("the CDK app", "platform")
    print(cdk_app())


@emulator_app.callback()
def prepare_emulator() -> None:
    """Let the commands import the emulator, or say which packages it lacks."""
    from trainway.parts.checkout import make_importable
    from trainway.parts.extras import require_extras

    require_extras("the emulator", "emulator")
    make_importable()


@emulator_app.command()
def start(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the emulator. 0 chooses a free port.")] = 0,
    region: Annotated[str, typer.Option(help="Region of the emulated AWS.")] = "us-west-2",
) -> None:
    """Start the emulator in the background, and print the environment that points at it."""
    import emulator

    with working("starting the emulator"):
        started = emulator.start(port=port, region=region)
    print(f'# emulated AWS at {started.endpoint}, pid {started.pid}; to use it: eval "$(trainway emulator env)"')


@emulator_app.command()
def env(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of commands of a shell.")] = False,
) -> None:
    """Print the environment that points a shell at the running emulator."""
    import shlex

    import emulator

    current = emulator.current()
    if current is None:
        raise usage_error(
            "there is no environment to print", why="no emulator runs here", fix="trainway emulator start"
        )
    if as_json:
        print(json.dumps(current.environment(), indent=2, sort_keys=True))
        return
    for name, value in sorted(current.environment().items()):
        print(f"export {name}={shlex.quote(value)}")


@emulator_app.command()
def stop() -> None:
    """Stop the emulator. Everything that was deployed to it is lost."""
    import emulator

    stopped = emulator.stop()
    print(f"stopped {stopped.endpoint}" if stopped else "no emulator was running")


@emulator_app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False) -> None:
    """Show whether an emulator runs on this machine, and how many resources it holds. If none does, exit with 1."""
    import emulator

    found = emulator.status()
    if as_json:
        known = {"endpoint": found.endpoint, "pid": found.pid, "resources": found.resources} if found else {}
        print(json.dumps({"running": found is not None, **known}, indent=2))
        if found is None:
            raise typer.Exit(1)
        return
    if found is None:
        print("no emulator is running")
        raise typer.Exit(1)
    print(f"{found.endpoint}, pid {found.pid}, up {found.age:.0f} s, {found.resources} resources")


def narrowed(words: Sequence[str]) -> typer.Typer:
    """Return the command line with only the command that the first word names, or all of it if the word names none.

    Typer inspects every command that it is given, which takes longer than most commands need to start.
    """
    first = words[0] if words else ""
    commands = [each for each in app.registered_commands if _name_of(each) == first]
    groups = [each for each in app.registered_groups if each.name == first]
    if not commands and not groups:
        return app
    one = copy.copy(app)
    one.registered_commands, one.registered_groups = commands, groups
    return one


def _name_of(command: CommandInfo) -> str:
    """Return the word that calls a command."""
    return command.name or get_command_name(command.callback.__name__ if command.callback else "")


add_examples(app)


def main() -> None:
    """Run the command line. A UsageError is printed without a traceback, and the exit status is 2.

    So is the error of a full or read-only disk. A signal that ends the command lets it clean up.
    """
    end_on_signals()
    try:
        try:
            narrowed(sys.argv[1:])()
        finally:
            sys.stdout.flush()
    except ToldToEnd as told:
        sys.exit(told.exit_status)
    except UsageError as error:
        show(str(error), to=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if (sentence := takes_no_more(error)) is None:
            raise
        # Python would try again to write the output, and print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(sentence, file=sys.stderr)
        sys.exit(2)


def _platform(file: Path) -> Platform:
    from trainway.spec.loader import load_platform

    return load_platform(file)


if __name__ == "__main__":
    main()
