"""Render the command of a node: how the kind of object starts the ranks, and the programs that wrap their launcher.

Where no file system mirrors the data bucket, run_files.py copies the files of the run to S3. In a run that continues
after a node failure, late_failure.py delays the report of a failed node. The starter of a program does so itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainway.launch.kubernetes.mpirun import under_mpirun
from trainway.launch.kubernetes.options import Kind
from trainway.launch.kubernetes.process import DIRECTORY, KILL_RANKS_AFTER, STOP_SECONDS
from trainway.launch.program.lost_nodes import NodeCounts, waiting_for_success
from trainway.launch.program.program import LATE_FAILURE, NODE_RANK, PASSED_SIGNALS, RUN_FILES
from trainway.launch.program.rank_launchers import launches_ranks
from trainway.launch.program.request import OnNodes, Request

# The kubelet and the controllers need a few seconds to end the job after its first pods succeed. A failed run restarts
# later by this time.
_SECONDS_OF_SUCCESS = 30
# How much earlier than the node's program the ranks have to end.
_AGENT_ENDS_SECONDS = 5


def under_launcher(request: Request, kind: Kind, nodes: NodeCounts) -> Request:
    """Return the request with the program that a node of this kind of object runs."""
    if kind == "MPIJob":
        return under_mpirun(request)
    if kind == "HyperPodPyTorchJob":
        return under_agent(request)
    if nodes.continues and request.program.started_by is not None:
        return waiting_for_success(request, _SECONDS_OF_SUCCESS)
    return request


def under_agent(request: Request) -> Request:
    """Return the request with HyperPod's agent in the place of the launcher of the ranks, whose options it reads.

    The agent kills processes without a signal before, unless it is told how long they may take to end.
    """
    program = request.program
    assert launches_ranks(program.command)
    # The agent starts the ranks itself, and restarts them by its own rules.
    words = program.rank_words or program.command[1:]
    seconds = max(1, min(KILL_RANKS_AFTER, (program.stop.grace_seconds or STOP_SECONDS) - _AGENT_ENDS_SECONDS))
    agent = ("hyperpodrun", "--shutdown-signal=SIGTERM", f"--shutdown-timeout={seconds}", *words)
    return replace(request, program=replace(program, command=agent))


def node_program(request: Request, on_nodes: OnNodes, kind: Kind, nodes: NodeCounts) -> tuple[str, ...]:
    """Return the command of a node, which copies the files of the run to S3 if nothing else does."""
    program = on_nodes.command
    if on_nodes.paths.copied_by_nodes:
        shared = ("--shared",) if request.hand_off.file_system else ()
        where = (f"--directory={on_nodes.directory}", f"--location={on_nodes.location}")
        program = ("python3", str(DIRECTORY / RUN_FILES.name), *shared, *where, "--", *program)
    if _fails_late(request, kind, nodes):
        program = ("python3", str(DIRECTORY / LATE_FAILURE.name), str(_SECONDS_OF_SUCCESS), *program)
    return program


def with_nodes(command: Sequence[str], nodes: NodeCounts) -> tuple[str, ...]:
    """Return the command of a node under an operator that overwrites PET_NNODES.

    The operators of TrainJob and PyTorchJob count spare nodes as nodes with ranks.
    """
    return ("env", f"PET_NNODES={nodes.nnodes}", *command) if nodes.continues else tuple(command)


def node_files(request: Request, on_nodes: OnNodes, kind: Kind, nodes: NodeCounts) -> dict[str, str]:
    """Return the text of each file that the command of a node uses beside those of the program, by file name."""
    copying = (RUN_FILES, NODE_RANK) if on_nodes.paths.copied_by_nodes else ()
    late = (LATE_FAILURE,) if _fails_late(request, kind, nodes) else ()
    wrappers = (*copying, *late)
    files = (*wrappers, PASSED_SIGNALS) if wrappers else ()
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def _fails_late(request: Request, kind: Kind, nodes: NodeCounts) -> bool:
    return nodes.continues and kind != "HyperPodPyTorchJob" and request.program.started_by is None
