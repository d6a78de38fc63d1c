"""The first process of a node whose job file has a section `run`: it starts the program, and decides how it ended.

    python3 start_program.py [--stop-signal SIGTERM] [--grace SECONDS] [--metric NAME=REGEX]… [--code WHERE] -- COMMAND

The launcher sends the files of this directory to the node beside the job file. They require Python 3.9 and nothing
else.

The exit status alone cannot tell a program that was stopped from one that is done or has failed: torchrun ends with 1
after a signal whatever its ranks return, and with 0 if its ranks end with 0. So this process remembers that the program
was asked to stop. It signals the process that the user started, and each process that this one leaves behind, once
(program_stop.py). It then waits for the grace, and kills what is left.
"""

import argparse
import os
import signal
import sys
import types
from pathlib import Path

if __name__ == "__main__":
    # A node has the files and no package. They import each other there by the names that they have in a checkout. No
    # other `trainway` is imported, even if the node has one.
    _package = types.ModuleType("trainway.launch.node")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[_package.__name__] = _package

from trainway.launch.node.command_check import check_command, check_inputs
from trainway.launch.node.exit_statuses import (
    HUNG,
    NOT_EXECUTABLE,
    NOT_FOUND,
    CannotStart,
    StoppedBefore,
    stopped_status,
)
from trainway.launch.node.incomplete_checkpoints import set_incomplete_aside
from trainway.launch.node.metrics_in_output import MetricsInOutput
from trainway.launch.node.node_of_run import NodeOfRun
from trainway.launch.node.node_rank import has_other_nodes
from trainway.launch.node.once_per_gpu import command_of_ranks, rendezvous
from trainway.launch.node.outputs_of_run import check_outputs, check_outputs_of_others, note_outputs
from trainway.launch.node.process_tree import STOPS
from trainway.launch.node.program_needs import code_directory, read_secrets, with_packages
from trainway.launch.node.program_output import ProgramOutput
from trainway.launch.node.program_process import run_program
from trainway.launch.node.rank_of_mpirun import run_rank
from trainway.launch.node.ray_job import ray_job
from trainway.launch.node.silence import Silence
from trainway.launch.node.stop_request import StopRequest

# A shell that is signaled ends at once, and leaves its programs alone. With a trap, bash waits for the program that it
# runs, and then ends with the status of the signal.
_TRAPS = "".join(f"trap 'exit {128 + number}' {number.name[3:]}\n" for number in STOPS)


def main() -> int:
    """Run the program of one node to its end, and return the exit status of the node."""
    asked = _arguments()
    if asked.rank:
        return run_rank(asked)
    if asked.script:
        asked.command = ["bash", "-c", _TRAPS + asked.command[0]]
    run = Path(os.environ["TRAINWAY_RUN"])
    node = NodeOfRun(run)
    stop = StopRequest(run, signal.Signals[asked.stop_signal])
    try:
        environment, directory = _prepare(asked, node, stop)
        secrets = read_secrets(asked.secret, environment, stop)
        environment = _with_trackers(asked, {**environment, **secrets}, node, stop)
        output = ProgramOutput(_metrics(asked, node, environment), list(secrets.values()))
        before = node.successes() if asked.late_failure else set()
        # The ranks of a driver are processes of Ray, on this node too, and nothing says here whether they work.
        least = 0.0 if ray_job() is not None else asked.hang
        silence = Silence(least, node.state, node.hang_file, node.rank, has_other_nodes())
        status, killed, hangs = run_program(asked, environment, directory, stop, output, silence)
        if node.rank == 0:
            note_outputs(run, environment["TRAINWAY_OUTPUT"], node.attempt)
    except CannotStart as problem:
        return node.ended(str(problem), problem.status)
    except StoppedBefore:
        return node.ended("", stopped_status(), stopped="the program had not begun")
    except OSError as problem:
        # For example a script without `#!` in its first line.
        return node.ended(f"{asked.command[0]} cannot start: {problem}", NOT_EXECUTABLE)
    if stop.asked_at is not None:
        how = f"the program's exit status is {status}"
        if killed:
            how = f"it was killed after {asked.grace:g} seconds, and until then there were {', '.join(killed)}"
        return node.ended("", stopped_status(), stopped=how)
    if hangs is not None:
        return node.ended(hangs, HUNG)
    if status == 0 and not output.causes.denies_success():
        return node.ended("", 0)
    if asked.late_failure and node.succeeds_elsewhere(before, asked.late_failure, stop):
        return node.ended("", 0)
    if stop.asked_at is not None:
        return node.ended("", stopped_status(), stopped=f"the program's exit status is {status}")
    cause, is_for_good = output.cause(node.seconds)
    why = f"{asked.command[0]} ended with exit status {status}"
    return node.ended(f"{cause} ({why})" if cause else why, NOT_FOUND if is_for_good else status or 1)


def _arguments() -> argparse.Namespace:
    """Return the options and the command of the program."""
    parser = argparse.ArgumentParser(description="Start the program of a run on a node.")
    parser.add_argument("--stop-signal", default="SIGTERM", metavar="NAME", help="signal that asks the program to stop")
    parser.add_argument("--grace", type=float, default=120, metavar="SECONDS", help="time from that signal to the end")
    parser.add_argument("--metric", action="append", default=[], metavar="NAME=REGEX", help="a number in the output")
    parser.add_argument("--metric-files", metavar="PATTERN", help="files below the outputs with numbers")
    parser.add_argument("--code", metavar="WHERE", help="directory to start in, or an archive of `trainway sync`")
    parser.add_argument(
        "--secret", action="append", default=[], metavar="NAME=SECRET", help="a variable and its secret"
    )
    parser.add_argument("--tracker", action="append", default=[], metavar="NAME", help="a tracker of the program")
    parser.add_argument("--hang", type=float, default=0, metavar="SECONDS", help="least silence that is a hang")
    parser.add_argument("--late-failure", type=float, default=0, metavar="SECONDS", help="wait for others to succeed")
    parser.add_argument("--always-retry", action="store_true", help="start again without progress, too")
    parser.add_argument("--packages", metavar="FILE", help="lock of Python packages that come before those of Python")
    parser.add_argument("--script", action="store_true", help="the command is a script for bash")
    parser.add_argument("--per-gpu", action="store_true", help="the command is torchrun's, of any program")
    parser.add_argument("--rank", action="store_true", help="this process is one of the ranks that mpirun starts")
    parser.add_argument("command", nargs="+", help="the program, after --")
    return parser.parse_args()


def _prepare(asked: argparse.Namespace, node: NodeOfRun, stop: StopRequest) -> "tuple[dict[str, str], Path]":
    """Return the environment of the program and the directory that it starts in, with its packages and its code.

    Raises CannotStart if the program cannot start, and StoppedBefore if it is asked to stop before.
    """
    node.check_launch()
    if not asked.always_retry:
        node.check_attempts()
    node.check_restarts()
    check = check_outputs if node.rank == 0 else check_outputs_of_others
    check(node.run, os.environ["TRAINWAY_OUTPUT"], node.attempt)
    environment = with_packages(asked.packages, node.environment(asked.grace), stop)
    if asked.per_gpu and Path(asked.command[0]).name == "torchrun":
        environment.update(rendezvous(environment, node.rank))
    node.state.environment = environment
    check_inputs(environment)
    directory = code_directory(asked.code, node.run, environment, stop)
    if node.rank == 0:
        set_incomplete_aside(environment["TRAINWAY_OUTPUT"])
    check_command(asked.command, directory, environment)
    if asked.per_gpu:
        check_command(asked.command[asked.command.index("--no-python") + 1 :], directory, environment)
        asked.command = command_of_ranks(asked.command)
    if "--rank" in asked.command:
        of_rank = asked.command[asked.command.index("--rank") :]
        check_command(of_rank[of_rank.index("--") + 1 :], directory, environment)
    return environment, directory


def _with_trackers(
    asked: argparse.Namespace, environment: "dict[str, str]", node: NodeOfRun, stop: StopRequest
) -> "dict[str, str]":
    """Return the environment with the variables of the trackers, on the first node of a program that has some."""
    if not asked.tracker or node.rank != 0:
        return environment
    # Sent only with programs that have trackers.
    from trainway.launch.node.program_trackers import with_trackers

    return with_trackers(asked.tracker, environment, node.run, stop)


def _metrics(asked: argparse.Namespace, node: NodeOfRun, environment: "dict[str, str]") -> MetricsInOutput:
    """Return the reader of metrics: from the files or by the patterns that the job file names, or of progress bars."""
    metrics = MetricsInOutput(node.run, asked.metric, node.state)
    if asked.metric_files is not None:
        metrics.read_files(Path(environment["TRAINWAY_OUTPUT"]), asked.metric_files)
    elif not asked.metric:
        metrics.read_bars()
    return metrics


if __name__ == "__main__":
    sys.exit(main())
