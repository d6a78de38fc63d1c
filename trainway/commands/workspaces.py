"""`trainway workspace`: JupyterLab on a GPU, in a team's quota."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainway.commands.options import takes_options
from trainway.commands.platform_file import DEFAULT_PLATFORM, DeployedPlatformFile
from trainway.commands.printing import AsJson
from trainway.commands.progress import working

if TYPE_CHECKING:
    from trainway.launch.target.protocol import Handle

app = typer.Typer(help="Manage JupyterLab workspaces on GPUs, in a team's quota.", no_args_is_help=True)


@dataclass(frozen=True)
class WorkspaceOwner:
    """Options that identify a workspace by its owner and its team."""

    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Owner of the workspace. Default: the IAM user, or the session name, of your credentials for the "
            "cluster.",
        ),
    ] = None
    team: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Team whose quota the workspace uses. Required if the platform has several teams."
        ),
    ] = None


@dataclass(frozen=True)
class StartOptions:
    """Options of `trainway workspace start`: the nodes, the times, and the image of the workspace."""

    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run on this node group. Default: the one with the smallest accelerators that has enough of them.",
        ),
    ] = None
    accelerators: Annotated[
        int, typer.Option(min=1, metavar="N", help="Accelerators of one node, or fractions where they are divided.")
    ] = 1
    hours: Annotated[
        int, typer.Option(min=1, metavar="HOURS", help="End the workspace after this time, at most 168.")
    ] = 8
    idle_minutes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="End the workspace, and before it each kernel and terminal, after N minutes without use. 0: never.",
        ),
    ] = 60
    shared_memory: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="GIB", help="Most GiB of /dev/shm, which data loaders use. Default: half of the memory."
        ),
    ] = None
    priority: Annotated[
        Literal["low", "normal", "high"] | None,
        typer.Option(help="Priority among the jobs of the team. Default: no priority class."),
    ] = None
    image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Run in this image of the platform file's `images`. Default: that of the node group."
        ),
    ] = None
    index: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Package index with JupyterLab, for an image without it. Default: pip's own."),
    ] = None
    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted. Submit nothing.")] = False


@app.command()
@takes_options
def start(*, whose: WorkspaceOwner, options: StartOptions) -> None:
    """Start a workspace."""
    from trainway.extensions.workspace import WorkspaceRequest, define, owner_of_credentials, render_workspace
    from trainway.extensions.workspace import start as start_workspace
    from trainway.extensions.workspace.session import NO_TOKEN
    from trainway.launch.kubernetes import as_yaml
    from trainway.launch.platform.hand_off import read_hand_off, read_image
    from trainway.launch.registry.platform_file import platform_file_named
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.handoff_names import DEFAULT_IMAGE
    from trainway.spec.loader import load_platform

    platform, catalogue = load_platform(platform_file_named(options.platform_file)), load_catalogue()
    hand_off = read_hand_off(platform)
    asked = WorkspaceRequest(
        owner=whose.owner or owner_of_credentials(hand_off),
        team=whose.team,
        group=options.group,
        accelerators=options.accelerators,
        priority=options.priority,
        hours=options.hours,
        idle_minutes=options.idle_minutes,
        shared_memory_gib=options.shared_memory,
        index=options.index,
    )
    workspace = define(
        hand_off,
        lambda nodes: read_image(platform, hand_off, options.image or nodes.image or DEFAULT_IMAGE),
        catalogue,
        asked,
    )
    if options.dry_run:
        print(as_yaml(render_workspace(workspace, catalogue, NO_TOKEN)), end="")
        return
    with working(f"starting {workspace.name}"):
        start_workspace(workspace, catalogue)
    print(f"{workspace.name} was started. Open it with `trainway workspace connect`.")


@app.command()
@takes_options
def status(
    *,
    whose: WorkspaceOwner,
    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM,
    as_json: AsJson = False,
) -> None:
    """Show the state of a workspace, and why it waits."""
    from trainway.extensions.workspace import state

    with working("asking the cluster for the workspace"):
        found = state(_handle(whose, platform_file))
    if as_json:
        print(json.dumps({"phase": found.phase.value, "reason": found.reason or None}, indent=2))
        return
    print(": ".join(part for part in (found.phase.value, found.reason) if part))


@app.command()
@takes_options
def connect(
    *,
    whose: WorkspaceOwner,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8888,
    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM,
) -> None:
    """Print the URL of a workspace and forward a local port to it until Ctrl-C."""
    from trainway.extensions.workspace import connect as connection_to

    with working("asking the cluster for the workspace"):
        connection = connection_to(_handle(whose, platform_file), port)
    print(connection.url, flush=True)
    os.execvp(connection.command[0], connection.command)


@app.command()
@takes_options
def end(*, whose: WorkspaceOwner, platform_file: DeployedPlatformFile = DEFAULT_PLATFORM) -> None:
    """End a workspace. Its home directory stays."""
    from trainway.extensions.workspace import end as end_workspace

    with working("ending the workspace"):
        end_workspace(_handle(whose, platform_file))


def _handle(whose: WorkspaceOwner, platform_file: Path) -> Handle:
    from trainway.extensions.workspace import find, owner_of_credentials
    from trainway.launch.platform.hand_off import read_hand_off
    from trainway.launch.registry.platform_file import platform_file_named
    from trainway.spec.loader import load_platform

    hand_off = read_hand_off(load_platform(platform_file_named(platform_file)))
    return find(hand_off, whose.owner or owner_of_credentials(hand_off), whose.team)
