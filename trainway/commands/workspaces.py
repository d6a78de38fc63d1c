"""`trainway workspace`: JupyterLab on a GPU, in a team's quota."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainway.commands.launching import DEFAULT_PLATFORM, PlatformFile

if TYPE_CHECKING:
    from trainway.launch.target import Handle

app = typer.Typer(help="JupyterLab on a GPU, in a team's quota.", no_args_is_help=True)

Team = Annotated[str | None, typer.Option(help="The team whose quota it is in.")]
Owner = Annotated[str, typer.Option(help="Whose it is; your login name here.", default_factory=getpass.getuser)]


@app.command()
def start(
    owner: Owner,
    team: Team = None,
    group: Annotated[str | None, typer.Option(help="The node group.")] = None,
    accelerators: Annotated[int, typer.Option(min=1, help="So many of one node's, or fractions.")] = 1,
    hours: Annotated[int, typer.Option(min=1, help="Until it ends.")] = 8,
    priority: Annotated[
        Literal["low", "normal", "high"] | None, typer.Option(help="Which of the team's own goes first.")
    ] = None,
    index: Annotated[str | None, typer.Option(metavar="URL", help="Where pip finds JupyterLab.")] = None,
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted.")] = False,
) -> None:
    """Start a workspace."""
    from trainway.launch.hand_off import read_hand_off, read_image
    from trainway.launch.kubernetes import as_yaml
    from trainway.launch.workspace import define, render_workspace
    from trainway.launch.workspace import start as start_workspace
    from trainway.launch.workspace.session import NO_TOKEN
    from trainway.spec.catalogue import load_catalogue
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
    print(f"{workspace.name} was started; `trainway workspace connect` opens the way to it")


@app.command()
def status(owner: Owner, team: Team = None, platform_file: PlatformFile = DEFAULT_PLATFORM) -> None:
    """Say how far a workspace is, and why it waits."""
    from trainway.launch.workspace import state

    found = state(_handle(owner, team, platform_file))
    print(": ".join(part for part in (found.phase.value, found.reason) if part))


@app.command()
def connect(
    owner: Owner,
    team: Team = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of this machine.")] = 8888,
    platform_file: PlatformFile = DEFAULT_PLATFORM,
) -> None:
    """Print a workspace's address on this machine, and open the way to it until Ctrl-C."""
    from trainway.launch.workspace import connect as connection_to

    connection = connection_to(_handle(owner, team, platform_file), port)
    print(connection.url, flush=True)
    os.execvp(connection.command[0], connection.command)


@app.command()
def end(owner: Owner, team: Team = None, platform_file: PlatformFile = DEFAULT_PLATFORM) -> None:
    """End a workspace; what is in its home directory stays."""
    from trainway.launch.workspace import end as end_workspace

    end_workspace(_handle(owner, team, platform_file))


def _handle(owner: str, team: str | None, platform_file: PlatformFile) -> Handle:
    from trainway.launch.hand_off import read_hand_off
    from trainway.launch.workspace import find
    from trainway.spec.loader import load_platform

    return find(read_hand_off(load_platform(platform_file)), owner, team)
