"""The `trainway` command. Every import that takes time is inside the command that needs it."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainway.commands import diagnosing, launching, watching, workspaces
from trainway.commands.launching import DEFAULT_PLATFORM, PlatformFile
from trainway.spec.errors import UsageError, usage_error

if TYPE_CHECKING:
    from trainway.spec.platform import Platform

app = typer.Typer(
    help="A distributed-training platform on AWS from one file, and the job that runs on it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
emulator_app = typer.Typer(help="An emulated AWS on this machine.", no_args_is_help=True)
app.add_typer(emulator_app, name="emulator")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    on: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="Day for which the file must be valid, for example 2027-04-01: its Kubernetes version must have "
            "standard support then. Default: today, in UTC.",
        ),
    ] = None,
) -> None:
    """Validate a platform file and print every problem."""
    from trainway.spec.loader import load_platform

    platform = load_platform(file, today=(on or datetime.now(UTC)).date())
    nodes = ", ".join(f"{group.largest} × {' or '.join(group.instance_types)}" for group in platform.node_groups)
    print(f"{file}: {platform.name} in {platform.region} on {platform.orchestrator.value}, up to {nodes}: no problems.")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the platform file, which editors complete it with."""
    from trainway.spec.platform import Platform

    print(json.dumps(Platform.model_json_schema(), indent=2))


@app.command()
def instances() -> None:
    """List the instance types that a platform file can name."""
    from trainway.spec.catalogue import load_catalogue

    for name, instance in load_catalogue().items():
        accelerator = instance.accelerator
        chips = (
            f"{accelerator.count} × {accelerator.name} {accelerator.memory_gib} GiB"
            if accelerator
            else "no accelerator"
        )
        hyperpod = "EKS, HyperPod" if instance.hyperpod_name else "EKS"
        print(f"{name:20} {chips:24} {instance.efa_interfaces:3} EFA  {instance.network_gbps:8g} Gb/s  {hyperpod}")


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Show what a platform will have: subnets and what fills them, nodes, quotas."""
    from trainway.plan import plan_document, plan_text
    from trainway.spec.catalogue import load_catalogue

    document = plan_document(_platform(file), load_catalogue())
    print(json.dumps(document, indent=2) if as_json else plan_text(document))


@app.command()
def adopt(
    resource: Annotated[str, typer.Argument(metavar="ID", help="The id of a VPC or of a Lustre file system of yours.")],
    file: PlatformFile = DEFAULT_PLATFORM,
    subnet: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=ID", help="A subnet to use, by a name that `trainway plan` prints."),
    ] = None,
    security_group: Annotated[
        str | None,
        typer.Option(metavar="ID", help="For nodes, instead of a new one; of a file system, the one to use."),
    ] = None,
    route_table: Annotated[str | None, typer.Option(metavar="ID", help="What new subnets route by.")] = None,
) -> None:
    """Look at a VPC or a file system of yours, and print the section that makes the platform use it."""
    import yaml

    if resource.startswith("fs-"):
        from trainway.adopt_file_system import look_at_file_system

        theirs = look_at_file_system(resource, region=_platform(file).region, security_group_id=security_group)
        lustre = {"existing": theirs.model_dump(mode="json", exclude_defaults=True)}
        print(yaml.safe_dump({"storage": {"lustre": lustre}}, sort_keys=False), end="")
        return
    from trainway.adopt import look_at_network
    from trainway.spec.addressing import plan_addresses
    from trainway.spec.catalogue import load_catalogue
    from trainway.spec.subnets import SubnetRole

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
    print(yaml.safe_dump(section, sort_keys=False), end="")


@app.command()
def manifests(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    out: Annotated[Path, typer.Option(help="A directory that is made, or emptied of what was written before.")] = Path(
        "manifests"
    ),
    deployed: Annotated[bool, typer.Option("--deployed", help="Fill in what only the deploy knows.")] = False,
) -> None:
    """Write what the deploy puts into Kubernetes: objects to apply, and values for the charts."""
    from trainway.launch.hand_off import read_hand_off
    from trainway.manifests.export import export_manifests
    from trainway.spec.catalogue import load_catalogue

    platform = _platform(file)
    hand_off = read_hand_off(platform) if deployed else None
    written, open_names = export_manifests(platform, load_catalogue(), out, hand_off)
    print(f"{len(written)} files in {out}")
    if open_names:
        print(f"to be filled in, or --deployed fills them in: {', '.join(open_names)}", file=sys.stderr)


app.command()(launching.launch)
app.command()(watching.status)
app.command()(watching.logs)
app.command()(watching.stop)
app.command()(launching.resume)
app.command()(watching.shell)
app.command()(diagnosing.explain)
app.command()(diagnosing.verify)
app.command()(launching.sync)
app.add_typer(workspaces.app, name="workspace")


@app.command()
def report(run: Annotated[Path, typer.Argument(help="The directory of a run.")]) -> None:
    """Write a run's report: one HTML page that needs nothing else."""
    from trainway.report import write_report

    print(write_report(run))


@app.command()
def demo(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    job_file: Annotated[Path, typer.Option("--job", help="The job file.")] = Path("examples/jobs/tiny.yaml"),
    processes: Annotated[int, typer.Option(min=1, help="Ranks on this machine.")] = 2,
    run: Annotated[Path | None, typer.Option(help="Directory of the run.")] = None,
) -> None:
    """Deploy a platform to an emulated AWS, train on this machine from what the deploy handed over, and report."""
    from trainway.demo import run_demo

    run_demo(platform_file, job_file, processes=processes, run=run)


@emulator_app.command()
def start(
    port: Annotated[int, typer.Option(help="0 chooses a free one.")] = 0,
    region: Annotated[str, typer.Option(help="The Region that it plays.")] = "us-west-2",
) -> None:
    """Start the emulator in the background, and print the environment that points at it."""
    from trainway import emulator

    started = emulator.start(port=port, region=region)
    print(f'# emulated AWS at {started.endpoint}, pid {started.pid}; to use it: eval "$(trainway emulator env)"')


@emulator_app.command()
def env() -> None:
    """Print the environment that points a shell at the running emulator."""
    import shlex

    from trainway import emulator

    current = emulator.current()
    if current is None:
        raise usage_error(
            "there is no environment to print", why="no emulator runs here", fix="trainway emulator start"
        )
    for name, value in sorted(current.environment().items()):
        print(f"export {name}={shlex.quote(value)}")


@emulator_app.command()
def stop() -> None:
    """Stop the emulator; what was deployed to it is gone."""
    from trainway import emulator

    stopped = emulator.stop()
    print(f"stopped {stopped.endpoint}" if stopped else "no emulator was running")


@emulator_app.command()
def status() -> None:
    """Say whether an emulator runs here, and what it holds."""
    from trainway import emulator

    found = emulator.status()
    if found is None:
        print("no emulator is running")
        raise typer.Exit(1)
    print(f"{found.endpoint}, pid {found.pid}, up {found.age:.0f} s, {found.resources} resources")


def main() -> None:
    """The entry point: what a user can put right is printed without a traceback, and ends with status 2."""
    try:
        app()
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def _platform(file: Path) -> Platform:
    from trainway.spec.loader import load_platform

    return load_platform(file)


if __name__ == "__main__":
    main()
