"""`trainway status`, `logs`, `stop`, `shell`, `forward`, and `copy`: watch and control a run on any target."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
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
    from trainway.launch.runs.run_directory import RUNS, run_named, runs_below
    from trainway.launch.runs.status import status_of, status_table

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
    from trainway.launch.runs.run_directory import read_launch, run_named
    from trainway.launch.target.known import target_named

    record = read_launch(run_named(name))
    try:
        for line in target_named(record["target"]).logs(record["handle"], follow=follow):
            print(line, flush=follow)
    except KeyboardInterrupt:
        # Ctrl-C ends the command, and not the run.
        raise typer.Exit from None


def stop(name: RunName) -> None:
    """Stop a run after its current step, with a checkpoint. `trainway resume` resumes it."""
    from trainway.launch.runs.run_directory import read_launch, run_named
    from trainway.launch.target.known import target_named

    record = read_launch(run_named(name))
    target_named(record["target"]).stop(record["handle"])
    print(f"{name} was told to stop", file=sys.stderr)


def shell(
    name: RunName,
    node: Annotated[int, typer.Option(min=0, help="Index of the node in the run. The first node is 0.")] = 0,
) -> None:
    """Open a shell on a node of a run."""
    from trainway.launch.runs.run_directory import read_launch, run_named
    from trainway.launch.target.known import target_named

    record = read_launch(run_named(name))
    command = list(target_named(record["target"]).shell(record["handle"], node))
    os.execvp(command[0], command)


def forward(
    name: RunName,
    port: Annotated[int, typer.Argument(min=1, max=65535, metavar="PORT", help="Port that the program listens on.")],
    node: Annotated[int, typer.Option(min=0, help="Index of the node in the run. The first node is 0.")] = 0,
    local_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, metavar="PORT", help="Port of this machine that is forwarded. Default: the same port."
        ),
    ] = None,
) -> None:
    """Forward a port of this machine to a node of a run, for example that of TensorBoard, until Ctrl-C."""
    from trainway.launch.runs.run_directory import read_launch, run_named
    from trainway.launch.target.known import target_named
    from trainway.spec.errors import usage_error

    record = read_launch(run_named(name))
    target = target_named(record["target"])
    if target.forward is None:
        what = f"port {port} of {name} cannot be forwarded"
        raise usage_error(what, why=f"the target {target.name} reaches no ports", fix="write what you need to a file")
    here = local_port or port
    command = target.forward(record["handle"], node, port, here)
    if command is None:
        print(f"http://127.0.0.1:{port}")
        return
    print(f"http://127.0.0.1:{here}", flush=True)
    os.execvp(command[0], list(command))


def copy(
    name: RunName,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Copy only files whose path below the run's directory matches, for example 'logs/*'. Repeatable. "
            "Default: all files.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory to copy to. Default: the run's directory below runs."),
    ] = None,
) -> None:
    """Copy what a run wrote, such as logs, metrics, and outputs, from the platform to this machine."""
    from trainway.launch.job_file.programs import load_program
    from trainway.launch.platform.hand_off import read_hand_off
    from trainway.launch.runs.outputs import copy_local, copy_outputs, not_on_a_platform
    from trainway.launch.runs.run_directory import read_launch, run_named
    from trainway.launch.target.known import target_named
    from trainway.spec.loader import load_platform

    run = run_named(name)
    record = read_launch(run)
    if target_named(record["target"]).orchestrators:
        hand_off = read_hand_off(load_platform(Path(record["options"]["platform_file"])))
        outputs = load_program(run / "job.yaml").outputs
        done = copy_outputs(hand_off, run.name, to or run, only or (), outputs=outputs)
    elif to is None:
        raise not_on_a_platform(run)
    else:
        done = copy_local(run, to, only or ())
    print(f"{to or run}: copied {done.copied} files, {done.size / 2**20:.1f} MiB; {done.kept} were here already")
