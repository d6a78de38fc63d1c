"""`trainway status`, `logs`, `stop`, `resume` and `shell`: watch and control a run on any target."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="Name or directory of a run. `trainway status` lists the runs.")
]


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]…", help="Names or directories of runs. Default: all runs launched from this directory."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the state of runs on all targets."""
    from trainway.launch.run_directory import RUNS, run_named, runs_below
    from trainway.launch.status import status_of, status_table

    runs = [run_named(name) for name in names] if names else runs_below(RUNS)
    rows = [status_of(run) for run in runs]
    if as_json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    elif rows:
        status_table(rows)
    else:
        print("nothing was launched from this directory")


def logs(
    name: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the run ends.")] = False,
) -> None:
    """Print the logs of all ranks of a run, each line with its node and rank."""
    from trainway.launch.run_directory import read_launch, run_named
    from trainway.launch.targets import target_named

    record = read_launch(run_named(name))
    try:
        for line in target_named(record["target"]).logs(record["handle"], follow=follow):
            print(line, flush=follow)
    except KeyboardInterrupt:
        # Ctrl-C ends the command, and not the run.
        raise typer.Exit from None


def stop(name: RunName) -> None:
    """Stop a run after its current step, with a checkpoint. `trainway resume` resumes it."""
    from trainway.launch.run_directory import read_launch, run_named
    from trainway.launch.targets import target_named

    record = read_launch(run_named(name))
    target_named(record["target"]).stop(record["handle"])
    print(f"{name} was told to stop", file=sys.stderr)


def shell(
    name: RunName,
    node: Annotated[int, typer.Option(min=0, help="Index of the node in the run. The first node is 0.")] = 0,
) -> None:
    """Open a shell on a node of a run."""
    from trainway.launch.run_directory import read_launch, run_named
    from trainway.launch.targets import target_named

    record = read_launch(run_named(name))
    command = list(target_named(record["target"]).shell(record["handle"], node))
    os.execvp(command[0], command)
