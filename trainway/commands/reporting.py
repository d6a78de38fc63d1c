"""`trainway report`: the page about a run, and the page about what teams used in a month."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from trainway.commands.progress import working
from trainway.commands.watching import has_screen


def report(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="Name or directory of a run. Leave it out with --month.", show_default=False
        ),
    ] = None,
    month: Annotated[
        str | None,
        typer.Option(
            metavar="YYYY-MM",
            help="Report what the teams of your platforms used in this month of UTC, for example 2026-11. Default: "
            "report on a run.",
        ),
    ] = None,
    team: Annotated[
        str | None,
        typer.Option(metavar="TEAM", help="With --month: report on this team alone. Default: all teams."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --month: print JSON. Default: write a page, and print its path.")
    ] = False,
    is_shown: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the page in the browser. Default: if this machine has a screen.",
        ),
    ] = None,
) -> None:
    """Write the report of a run, or of a month, as one HTML page, and print its path.

    `trainway copy` copies the files of a run that was launched elsewhere.
    """
    if month is None:
        page = _report_of_run(_run_alone(name, team, as_json=as_json))
    else:
        document = _usage(name, month, team)
        if as_json:
            print(json.dumps(document, indent=2))
            return
        page = _page_of(document, team)
    print(page)
    if has_screen() if is_shown is None else is_shown:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _run_alone(name: str | None, team: str | None, *, as_json: bool) -> str:
    """Return the name of the run. Raises UsageError without one, and for options that need --month."""
    from trainway.spec.errors import usage_error

    if team is not None or as_json:
        what, fix = "--team" if team is not None else "--json", "name a month, for example --month 2026-11"
        raise usage_error(f"{what} cannot be used", why="it belongs to the report of a month", fix=fix)
    if name is None:
        fix = "name a run, or a month, for example --month 2026-11"
        raise usage_error("there is nothing to report", why="neither a run nor --month is given", fix=fix)
    return name


def _report_of_run(name: str) -> Path:
    from trainway.launch.registry.find import find_run
    from trainway.launch.runs.run_directory import directory_named, read_launch
    from trainway.launch.starting.evaluations import keep_evaluations
    from trainway.parts.extras import require_extras
    from trainway.report import write_report

    require_extras("trainway report", "report")
    # A run that was started by torchrun alone has a directory, and is known to no launcher.
    run = directory_named(name) or find_run(name)
    with working(f"writing the report of {run.name}"):
        if (run / "launch.json").is_file():
            keep_evaluations(run, read_launch(run))
        return write_report(run)


def _usage(name: str | None, month: str, team: str | None) -> dict[str, Any]:
    """Return what teams used in a month. Raises UsageError for a run besides it."""
    from datetime import UTC, datetime

    from trainway.launch.registry.find import reachable_registries
    from trainway.report.usage.gather import usage_of
    from trainway.report.usage.month import month_of
    from trainway.spec.errors import usage_error

    if name is not None:
        fix = "leave out the run, or --month"
        raise usage_error(
            "there is no report of a run and a month", why=f"{name} and --month {month} are given", fix=fix
        )
    asked = month_of(month, now := datetime.now(UTC))
    with working(f"reading the records of {month}"):
        return usage_of(reachable_registries(), asked, team, now)


def _page_of(document: dict[str, Any], team: str | None) -> Path:
    """Write the page of a month below `runs`, and return its path. Raises UsageError if it cannot be written."""
    from trainway.launch.runs.run_directory import RUNS
    from trainway.parts.extras import require_extras
    from trainway.report.usage_page import write_usage_page
    from trainway.spec.errors import usage_error

    require_extras("trainway report", "report")
    page = RUNS / f"usage-{document['month']}{f'-{team}' if team else ''}.html"
    try:
        return write_usage_page(document, page)
    except OSError as error:
        why = error.strerror or str(error)
        raise usage_error(f"{page} cannot be written", why=why, fix="go to a directory that you can write") from None
