"""`trainway workspace`: JupyterLab on a GPU, in a team's quota."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainway.commands.launching import DEFAULT_PLATFORM, PlatformFile

if TYPE_CHECKING:
    from trainway.launch.target import Handle

app = typer.Typer(help="Manage JupyterLab workspaces on GPUs, in a team's quota.", no_args_is_help=True)

TeamOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Team whose quota the workspace uses. Required if the platform has several teams."
    ),
]
Owner = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Owner of the workspace. Default: your login name on this machine.",
        default_factory=getpass.getuser,
        show_default=False,
    ),
]


@app.command()
def start(
    owner: Owner,
    team: TeamOption = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run on this node group. Default: the first with divided GPUs, or else the first with GPUs.",
        ),
    ] = None,
    accelerators: Annotated[
        int, typer.Option(min=1, metavar="N", help="Accelerators of one node, or fractions where they are divided.")
    ] = 1,
    hours: Annotated[
        int, typer.Option(min=1, metavar="HOURS", help="End the workspace after this time, at most 168.")
    ] = 8,
    priority: Annotated[
        Literal["low", "normal", "high"] | None,
        typer.Option(help="Priority among the jobs of the team. Default: no priority class."),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Package index with JupyterLab, for an image without it. Default: pip's own."),
    ] = None,
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted. Submit nothing.")] = False,
) -> None:
    """Start a workspace."""
    from trainway.launch.hand_off import read_hand_off, read_image
    from trainway.launch.kubernetes import as_yaml
    from trainway.launch.workspace import define, render_workspace
    from trainway.launch.workspace import start as start_workspace
    from trainway.launch.workspace.session import NO_TOKEN
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform

    platform, catalogue = load_platform(platform_file), load_catalogue()
    hand_off = read_hand_off(platform)
    workspace = define(
        hand_off,
        read_image(platform, hand_off),
        catalogue,
        owner=owner,
        team=team,
        group=group,
        accelerators=accelerators,
        priority=priority,
        hours=hours,
        index=index,
    )
    if dry_run:
        print(as_yaml(render_workspace(workspace, catalogue, NO_TOKEN)), end="")
        return
    start_workspace(workspace, catalogue)
    print(f"{workspace.name} was started. Open it with `trainway workspace connect`.")


@app.command()
def status(owner: Owner, team: TeamOption = None, platform_file: PlatformFile = DEFAULT_PLATFORM) -> None:
    """Show the state of a workspace, and why it waits."""
    from trainway.launch.workspace import state

    found = state(_handle(owner, team, platform_file))
    print(": ".join(part for part in (found.phase.value, found.reason) if part))


@app.command()
def connect(
    owner: Owner,
    team: TeamOption = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8888,
    platform_file: PlatformFile = DEFAULT_PLATFORM,
) -> None:
    """Print the URL of a workspace and forward a local port to it until Ctrl-C."""
    from trainway.launch.workspace import connect as connection_to

    connection = connection_to(_handle(owner, team, platform_file), port)
    print(connection.url, flush=True)
    os.execvp(connection.command[0], connection.command)


@app.command()
def end(owner: Owner, team: TeamOption = None, platform_file: PlatformFile = DEFAULT_PLATFORM) -> None:
    """End a workspace. Its home directory stays."""
    from trainway.launch.workspace import end as end_workspace

    end_workspace(_handle(owner, team, platform_file))


def _handle(owner: str, team: str | None, platform_file: PlatformFile) -> Handle:
    from trainway.launch.hand_off import read_hand_off
    from trainway.launch.workspace import find
    from trainway.spec.loader import load_platform

    return find(read_hand_off(load_platform(platform_file)), owner, team)
