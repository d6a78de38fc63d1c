"""`trainway top`: what runs now, live in the terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.printing import show
from trainway.commands.progress import working
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.launch.top.gather import Site

# Lines of a site that are not rows of its tables: the headline, two table headers, two sentences, and empty lines.
_OTHER_LINES = 8


def top(
    platforms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PLATFORM]…",
            help="Names of the platforms to show. Default: this machine, the platform of platform.yaml, and those of "
            "`trainway connect`.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print all nodes and jobs once. Default: show them until Ctrl-C.")
    ] = False,
    every: Annotated[float, typer.Option(min=1, metavar="S", help="Refresh every S seconds, for example 10.")] = 5.0,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Slurm only: your login name on the cluster. Default: ubuntu."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON once instead of tables.")] = False,
) -> None:
    """Show nodes, GPUs, and jobs of platforms and of this machine, live. Without a terminal, they are printed once."""
    if as_json or once or not sys.stdout.isatty():
        with working("asking the platforms"):
            sites = _sites(platforms or [], user)
        if as_json:
            print(json.dumps([each.as_document() for each in sites], indent=2))
        else:
            _print(sites)
        return
    _watch(platforms or [], user, every)


def _sites(names: Sequence[str], user: str | None) -> list[Site]:
    """Return this machine and the platforms. Raises UsageError for a name that no platform has."""
    from trainway.launch.registry.find import known_platforms
    from trainway.launch.top.gather import site_of, this_site

    known = known_platforms()
    if absent := set(names) - {each.name for each in known}:
        names_known = ", ".join(each.name for each in known) or "none"
        why = f"the platforms of platform.yaml and of `trainway connect` are: {names_known}"
        fix = "add the platform with `trainway connect PLATFORM --region REGION`"
        raise usage_error(f"there is no platform {sorted(absent)[0]}", why=why, fix=fix)
    chosen = [each for each in known if not names or each.name in names]
    return [*([] if names else [this_site()]), *(site_of(each, user) for each in chosen)]


def _print(sites: Sequence[Site]) -> None:
    from trainway.launch.runs.status import print_table
    from trainway.launch.top.show import headline, jobs_table, nodes_table

    for index, site in enumerate(sites):
        if index:
            print()
        show(headline(site))
        if site.nodes:
            print_table(nodes_table(site))
        if site.jobs:
            print_table(jobs_table(site.jobs))
        else:
            show("no jobs")
        for sentence in site.unknown:
            show(f"unknown: {sentence}")


def _watch(names: Sequence[str], user: str | None, every: float) -> None:
    """Show the sites until Ctrl-C or a signal, on a screen of their own.

    rich leaves that screen and shows the cursor again however the block ends. SIGTERM raises an exception in it
    (trainway/parts/endings.py).
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    try:
        with Live(Text("asking the platforms …"), console=console, screen=True, auto_refresh=False) as live:
            while True:
                sites = _sites(names, user)
                live.update(_screen(sites, console.size.height), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _screen(sites: Sequence[Site], height: int) -> Any:
    """Return the part of the sites that fits on a screen of `height` lines. Two thirds of the rows are for jobs."""
    from rich.console import Group
    from rich.text import Text

    from trainway.launch.top.show import headline, jobs_table, left_out, nodes_table

    rows = max(2, (height - 1) // max(1, len(sites)) - _OTHER_LINES)
    parts: list[Any] = [Text(time.strftime("%H:%M:%S") + "   Ctrl-C ends", style="dim")]
    for site in sites:
        nodes = min(len(site.nodes), max(1, rows - min(len(site.jobs), rows * 2 // 3)))
        jobs = max(1, rows - nodes)
        parts += [Text(""), Text(headline(site), style="bold")]
        parts += [jobs_table(site.jobs, jobs)] if site.jobs else [Text("no jobs")]
        parts += map(Text, left_out(len(site.jobs), jobs, "jobs"))
        parts += [nodes_table(site, nodes)] if site.nodes else []
        parts += map(Text, left_out(len(site.nodes), nodes, "nodes"))
        parts += [Text(f"unknown: {each}", style="yellow", overflow="ellipsis", no_wrap=True) for each in site.unknown]
    return Group(*parts)
