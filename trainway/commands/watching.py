"""`trainway status`, `logs`, `stop`, `shell`, `forward`, and `copy`: watch and control a run on any target."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainway.commands.options import takes_options
from trainway.commands.printing import show
from trainway.commands.progress import working

if TYPE_CHECKING:
    from trainway.launch.runs.status import Row

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="Name or directory of a run. `trainway status` lists the runs.")
]


def has_screen() -> bool:
    """Return whether somebody sits before a screen of this machine: a terminal, a display, and no SSH."""
    display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(sys.stdout.isatty() and display and "SSH_CONNECTION" not in os.environ)


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]…", help="Names or directories of runs. Default: all runs launched from this directory."
        ),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Show all runs of your platforms that you may see, whoever launched them.")
    ] = False,
    team: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Show all runs of this team. Repeat it for further teams.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the table again every five seconds, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the state of runs on all targets."""
    while True:
        with working("asking for the state of the runs"):
            rows = _rows(names or [], everywhere=everywhere, teams=team or [])
        if watch and sys.stdout.isatty():
            print("\x1b[H\x1b[2J", end="")
        _print_rows(rows, as_json=as_json)
        if not watch:
            return
        try:
            time.sleep(SECONDS_BETWEEN_TABLES)
        except KeyboardInterrupt:
            raise typer.Exit from None


SECONDS_BETWEEN_TABLES = 5.0


def _rows(names: Sequence[str], *, everywhere: bool, teams: Sequence[str]) -> list[Row]:
    from trainway.launch.registry.find import find_run, launch_of, reachable_registries, written_state
    from trainway.launch.registry.record import RunRecord, UnreadableRecord
    from trainway.launch.runs.run_directory import RUNS, read_launch, runs_below
    from trainway.launch.runs.status import status_of_launch, unreadable_row
    from trainway.launch.starting.evaluations import known_evaluations

    unreadable: list[Row] = []
    if names or not (everywhere or teams):
        here = [find_run(name) for name in names] if names else runs_below(RUNS)
        launches = [(run, read_launch(run)) for run in here]
    else:
        found = [(each, registry) for registry in reachable_registries() for each in registry.records_and_others(teams)]
        launches = [
            (RUNS / each.run, launch_of(each, registry))
            for each, registry in found
            if isinstance(each, RunRecord) and each.launch
        ]
        unreadable = [unreadable_row(each.run, each.why) for each, _ in found if isinstance(each, UnreadableRecord)]
    rows = [status_of_launch(run.name, launch, run, written_state(launch, run.name)) for run, launch in launches]
    if not names:
        return [*rows, *unreadable]
    return [
        row._replace(evaluations=tuple(each.as_json() for each in known_evaluations(run, launch)))
        for row, (run, launch) in zip(rows, launches, strict=True)
    ]


def _print_rows(rows: Sequence[Row], *, as_json: bool) -> None:
    from trainway.launch.runs.status import status_table

    if as_json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    elif rows:
        status_table(rows)
    else:
        show("nothing was launched from this directory; `trainway status --all` shows the runs of your platforms")


@dataclass(frozen=True)
class LogsOptions:
    """Options of `trainway logs`: which lines it prints, and how."""

    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the run ends.")] = False
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Only lines of this node, as the first word of a line names it.")
    ] = None
    rank: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only lines of this rank of its node, the second word of a line."),
    ] = None
    attempt: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only lines of this start of the program. The first is 1.")
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only lines that are at most this old, as in 10m or 2h."),
    ] = None
    tail: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only the last N lines of each process, and later ones."),
    ] = None
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each line as a JSON object with its node, its rank, and its text.")
    ] = False


@takes_options
def logs(name: RunName, *, options: LogsOptions) -> None:
    """Print the logs of all ranks of a run, each line with its node and its rank there."""
    from trainway.explain.log_lines import parts_of_line
    from trainway.launch.registry.find import find_run
    from trainway.launch.runs.run_directory import read_launch
    from trainway.launch.target.known import target_named
    from trainway.launch.target.wanted_lines import WantedLines

    since = None if options.since is None else _seconds(options.since)
    wanted = WantedLines(options.node, options.rank, options.attempt, since, options.tail)
    record = read_launch(find_run(name))
    try:
        for line in target_named(record["target"]).logs(record["handle"], follow=options.follow, wanted=wanted):
            print(json.dumps(parts_of_line(line)) if options.as_json else line, flush=options.follow)
    except KeyboardInterrupt:
        # Ctrl-C ends the command, and not the run.
        raise typer.Exit from None


def _seconds(time_text: str) -> float:
    """Return the seconds of a time such as 90s, 10m, or 2h. Raises UsageError for another text."""
    from trainway.spec.errors import usage_error

    found = re.fullmatch(r"(\d{1,6})([smhd])", time_text)
    if found is None:
        fix = "write a number and s, m, h, or d, for example 10m"
        raise usage_error("the lines cannot be chosen by --since", why=f"{time_text} is not a time", fix=fix)
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def stop(name: RunName) -> None:
    """Stop a run after its current step, with a checkpoint. `trainway resume` resumes it."""
    from trainway.launch.registry.find import find_run, written_state
    from trainway.launch.runs.run_directory import read_launch
    from trainway.launch.runs.status import how_it_ended
    from trainway.launch.target.known import target_named
    from trainway.launch.target.protocol import Phase
    from trainway.spec.errors import usage_error

    run = find_run(name)
    record = read_launch(run)
    target = target_named(record["target"])
    ended = how_it_ended(target.state(record["handle"]).phase, written_state(record, run.name))
    if ended is Phase.GONE and "registry" in record:
        why = f"{target.name} does not know it any more, or hides it from you"
        raise usage_error(
            f"{name} cannot be stopped", why=why, fix=f"ask {record['registry']['owner']}, who launched it"
        )
    if ended:
        print(f"{name} has ended: it is {ended.value}", file=sys.stderr)
        return
    target.stop(record["handle"])
    print(f"{name} was told to stop", file=sys.stderr)


def shell(
    name: RunName,
    node: Annotated[int, typer.Option(min=0, help="Index of the node in the run. The first node is 0.")] = 0,
) -> None:
    """Open a shell on a node of a run."""
    from trainway.launch.registry.find import find_run
    from trainway.launch.runs.run_directory import read_launch
    from trainway.launch.target.known import target_named

    record = read_launch(find_run(name))
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
    from trainway.launch.registry.find import find_run
    from trainway.launch.runs.run_directory import read_launch
    from trainway.launch.target.known import target_named
    from trainway.spec.errors import usage_error

    record = read_launch(find_run(name))
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
    from trainway.launch.job_file.programs import load_recorded_program
    from trainway.launch.platform.hand_off import read_hand_off
    from trainway.launch.registry.find import find_run, platform_of
    from trainway.launch.runs.outputs import copy_local, copy_outputs, not_on_a_platform
    from trainway.launch.runs.run_directory import read_launch
    from trainway.launch.target.known import target_named

    run = find_run(name)
    record = read_launch(run)
    if target_named(record["target"]).orchestrators:
        program = load_recorded_program(run)
        with working(f"copying the files of {run.name}"):
            hand_off = read_hand_off(platform_of(record))
            done = copy_outputs(hand_off, run.name, to or run, only or (), team=program.team, outputs=program.outputs)
    elif to is None:
        raise not_on_a_platform(run)
    else:
        done = copy_local(run, to, only or ())
    print(f"{to or run}: copied {done.copied} files, {done.size / 2**20:.1f} MiB; {done.kept} were here already")
