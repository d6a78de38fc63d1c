"""`trainway report`: the page about a run."""

from __future__ import annotations

from typing import Annotated

import typer

from trainway.commands.progress import working
from trainway.commands.watching import RunName, has_screen


def report(
    name: RunName,
    is_shown: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the page in the browser. Default: if this machine has a screen.",
        ),
    ] = None,
) -> None:
    """Write the report of a run as one HTML page, and print its path.

    `trainway copy` copies the files of a run that was launched elsewhere.
    """
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
        page = write_report(run)
    print(page)
    if has_screen() if is_shown is None else is_shown:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
