"""`trainway status`, `logs`, `stop`, `resume` and `shell`: what becomes of a run, wherever it runs."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's name or directory; `trainway status` lists them.")]


def status(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]…", help="Runs; all that were launched here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say how far runs are, wherever they run."""
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
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
) -> None:
    """Print what all ranks of a run wrote, each line with its node and rank."""
    from trainway.launch.run_directory import read_launch, run_named
    from trainway.launch.targets import target_named

    record = read_launch(run_named(name))
    try:
        for line in target_named(record["target"]).logs(record["handle"], follow=follow):
            print(line, flush=follow)
    except KeyboardInterrupt:
        # Who stops looking does not stop the run.
        raise typer.Exit from None


def stop(name: RunName) -> None:
    """Let a run finish its step, save itself and end; `trainway resume` goes on from there."""
    from trainway.launch.run_directory import read_launch, run_named
    from trainway.launch.targets import target_named

    record = read_launch(run_named(name))
    target_named(record["target"]).stop(record["handle"])
    print(f"{name} was told to stop", file=sys.stderr)


def shell(
    name: RunName,
    node: Annotated[int, typer.Option(min=0, help="Which node of the run, by its index.")] = 0,
) -> None:
    """Open a shell on a node of a run."""
    from trainway.launch.run_directory import read_launch, run_named
    from trainway.launch.targets import target_named

    record = read_launch(run_named(name))
    command = list(target_named(record["target"]).shell(record["handle"], node))
    os.execvp(command[0], command)
