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
from trainway.commands.target_flags import LaunchCommand
from trainway.spec.errors import UsageError, usage_error

if TYPE_CHECKING:
    from trainway.spec.platform import Platform

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The exit status of `trainway diff` where a deploy would lose nodes or data that nobody named.
REFUSED = 3
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
    """Print the JSON Schema of the platform file, by which editors complete and check the file."""
    from trainway.spec.platform import Platform

    print(json.dumps(Platform.model_json_schema(), indent=2))


@app.command()
def instances() -> None:
    """List the instance types that a platform file can name."""
    from trainway.spec.facts.catalogue import load_catalogue

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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show what a platform will have: subnets and their IP addresses, nodes, and quotas."""
    from trainway.plan import plan_document, plan_text
    from trainway.spec.facts.catalogue import load_catalogue

    document = plan_document(_platform(file), load_catalogue())
    print(json.dumps(document, indent=2) if as_json else plan_text(document))


@app.command()
def lock(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    deployed: Annotated[
        bool,
        typer.Option(
            "--deployed",
            help="Free the ranges of the subnets that the deploy deleted. Run it after a deploy that succeeded. "
            "Default: record what the next deploy creates and deletes. Run it before a deploy.",
        ),
    ] = False,
) -> None:
    """Write the lock of a platform, which keeps subnets where they are when the platform file changes."""
    from trainway.spec.derived.next_lock import deployed_lock, next_lock
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.lock import lock_file, lock_text

    platform, catalogue = _platform(file), load_catalogue()
    after = deployed_lock(platform, catalogue) if deployed else next_lock(platform, catalogue)
    path = lock_file(file)
    if after == platform.lock and path.exists():
        print(f"{path}: nothing changes.")
        return
    path.write_text(lock_text(after), encoding="utf-8")
    before = platform.lock.subnets
    for name in sorted(before.keys() | after.subnets.keys()):
        if name not in before:
            print(f"{name}: {after.subnets[name].cidr} in {after.subnets[name].zone}")
        elif name not in after.subnets:
            print(f"{name}: {before[name].cidr} is free")
        elif name in after.leaving and name not in platform.lock.leaving:
            print(f"{name}: {before[name].cidr} leaves with the next deploy")
    print(f"{path}: written. Commit it together with {file.name}.")


@app.command()
def upgrade(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    check_only: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Print what is newer, until when versions have support, and the steps to the next Kubernetes version. "
            "Change nothing.",
        ),
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Change the AMI release of this node group only. Repeat the option for several. Default: every group.",
        ),
    ] = None,
    addons: Annotated[bool, typer.Option("--addons", help="Change the versions of the add-ons only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print JSON instead of text.")] = False,
) -> None:
    """Write the newest AMI releases and add-on versions into the lock. The next deploy takes them; AWS is only read."""
    from trainway.kubernetes_upgrade import published, upgrade_json, upgrade_text
    from trainway.spec.derived.kubernetes_steps import pinned, upgrade_plan
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.lock import lock_file, lock_text

    platform, catalogue = _platform(file), load_catalogue()
    what = f"{file} cannot be upgraded"
    if not platform.orchestrator.is_kubernetes:
        why = f"{platform.orchestrator.value} has no Kubernetes"
        raise usage_error(what, why=why, fix="change the image of HyperPod's nodes by `hyperpod.patching`")
    plan = upgrade_plan(platform, catalogue, published(platform, catalogue), datetime.now(UTC))
    if check_only:
        print(json.dumps(upgrade_json(plan), indent=2) if as_json else upgrade_text(plan))
        return
    names = [pin.name for pin in plan.nodes]
    if unknown := [name for name in group or [] if name not in names]:
        why = f"the platform has no node group {unknown[0]} with an AMI of EKS's own"
        raise usage_error(what, why=why, fix=f"its groups are {', '.join(names)}")
    held = {pin.name: pin.held for pin in plan.nodes if pin.held}
    if refused := [name for name in group or [] if name in held]:
        raise usage_error(what, why=f"{refused[0]}: {held[refused[0]]}", fix="upgrade it after the block")
    chosen = frozenset(group or ([] if addons else names))
    after = pinned(platform.lock, plan, groups=chosen, addons=addons or not group)
    for name in sorted(chosen & held.keys()):
        print(f"{name} keeps its release: {held[name]}")
    if after == platform.lock:
        print(f"{lock_file(file)}: nothing changes.")
        return
    lock_file(file).write_text(lock_text(after), encoding="utf-8")
    for before, now in (
        (platform.lock.addon_versions, after.addon_versions),
        (platform.lock.ami_releases, after.ami_releases),
    ):
        for name in sorted(name for name in now if now[name] != before.get(name)):
            print(f"{name}: {before.get(name, 'not pinned')} → {now[name]}")
    print(f"{lock_file(file)}: written. Commit it, and deploy. The deploy replaces the nodes of each group named here.")


@app.command()
def diff(
    file: Annotated[Path, typer.Argument(help="A platform file.")] = DEFAULT_PLATFORM,
    allow_replace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Allow the deploy to replace or delete NAME, for example `storage.lustre` or a node group. Repeat the "
            "option for each name. Default: refuse whatever has data or running nodes.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    assembly: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the synthesized templates in DIR, for `cdk deploy --app DIR`. Default: delete them.",
        ),
    ] = None,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="Show what a destroy would delete and keep instead.")
    ] = False,
    stack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --destroy, the stack NAME and those that depend on it. Repeat the option for each stack. "
            "Default: all stacks of the platform.",
        ),
    ] = None,
) -> None:
    """Show what a deploy would create, change, replace, and delete. The exit status is 3 if it refuses something."""
    from trainway.diff.destroy import look_at_destroy
    from trainway.diff.look import look
    from trainway.diff.report import text_of
    from trainway.parts.extras import require_extras

    require_extras("trainway diff", "platform")
    if destroy:
        report = look_at_destroy(file, stacks=stack or ())
    else:
        report = look(file, allowed=allow_replace or (), assembly=assembly)
    print(report.model_dump_json(indent=2) if as_json else text_of(report))
    if report.refused:
        raise typer.Exit(REFUSED)


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
) -> None:
    """Inspect your VPC or Lustre file system, and print the section of the platform file that uses it."""
    import yaml

    if resource.startswith("fs-"):
        from trainway.adopt_file_system import look_at_file_system

        theirs = look_at_file_system(resource, region=_platform(file).region, security_group_id=security_group)
        lustre = {"existing": theirs.model_dump(mode="json", exclude_defaults=True)}
        print(yaml.safe_dump({"storage": {"lustre": lustre}}, sort_keys=False), end="")
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
    from trainway.launch.hand_off import read_hand_off
    from trainway.manifests.export import export_manifests
    from trainway.spec.facts.catalogue import load_catalogue

    platform = _platform(file)
    hand_off = read_hand_off(platform) if deployed else None
    written, open_names = export_manifests(platform, load_catalogue(), out, hand_off)
    print(f"{len(written)} files in {out}")
    if open_names:
        print(f"placeholders, which --deployed fills in: {', '.join(open_names)}", file=sys.stderr)


app.command(cls=LaunchCommand)(launching.launch)
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
def report(run: Annotated[Path, typer.Argument(help="Directory of the run.")]) -> None:
    """Write the report of a run as one HTML page, and print its path."""
    from trainway.parts.extras import require_extras
    from trainway.report import write_report

    require_extras("trainway report", "report")
    print(write_report(run))


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
    port: Annotated[int, typer.Option(help="Port of the emulator. 0 chooses a free port.")] = 0,
    region: Annotated[str, typer.Option(help="Region of the emulated AWS.")] = "us-west-2",
) -> None:
    """Start the emulator in the background, and print the environment that points at it."""
    import emulator

    started = emulator.start(port=port, region=region)
    print(f'# emulated AWS at {started.endpoint}, pid {started.pid}; to use it: eval "$(trainway emulator env)"')


@emulator_app.command()
def env() -> None:
    """Print the environment that points a shell at the running emulator."""
    import shlex

    import emulator

    current = emulator.current()
    if current is None:
        raise usage_error(
            "there is no environment to print", why="no emulator runs here", fix="trainway emulator start"
        )
    for name, value in sorted(current.environment().items()):
        print(f"export {name}={shlex.quote(value)}")


@emulator_app.command()
def stop() -> None:
    """Stop the emulator. Everything that was deployed to it is lost."""
    import emulator

    stopped = emulator.stop()
    print(f"stopped {stopped.endpoint}" if stopped else "no emulator was running")


@emulator_app.command()
def status() -> None:
    """Show whether an emulator runs on this machine, and how many resources it holds."""
    import emulator

    found = emulator.status()
    if found is None:
        print("no emulator is running")
        raise typer.Exit(1)
    print(f"{found.endpoint}, pid {found.pid}, up {found.age:.0f} s, {found.resources} resources")


def main() -> None:
    """Run the command line. A UsageError is printed without a traceback, and the exit status is 2."""
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
