"""A rank that mpirun starts on a node."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND, CannotStart, StoppedBefore
from trainway.launch.node.node_of_run import launch_here
from trainway.launch.node.nodes_of_run import write_node
from trainway.launch.node.once_per_gpu import task_variables
from trainway.launch.node.process_tree import (
    SECONDS_BETWEEN_LOOKS,
    adopt_orphans,
    begin,
    is_anything_left,
    kill_descendants,
    reaped,
)
from trainway.launch.node.program_needs import read_secrets, with_packages
from trainway.launch.node.program_stop import ProgramStop
from trainway.launch.node.stop_request import RankSignals


def run_rank(asked: argparse.Namespace) -> int:
    """Run the program of a rank that mpirun starts, and return its exit status, or 0 if it was asked to stop.

    mpirun passes SIGUSR1 on to all ranks, for a stop, and then waits for them. The program gets the signal of its job
    file instead. When a rank ends with another status than 0, mpirun kills the others, which may be saving. So a rank
    that was asked to stop ends with 0. mpirun sends SIGTERM when it gives up, and kills soon after.
    """
    told = RankSignals()
    adopt_orphans()
    of_rank = rank_environment(os.environ)
    if of_rank["LOCAL_RANK"] == "0" and of_rank["TRAINWAY_NODE_RANK"] != "0":
        # mpirun passes on the name of the node of its launcher, so this one is known by its instance.
        run, node = Path(os.environ["TRAINWAY_RUN"]), int(of_rank["TRAINWAY_NODE_RANK"])
        write_node(run, node, launch_here() or f"attempt {os.environ.get('TRAINWAY_ATTEMPT')}", socket.gethostname())
    try:
        environment = with_packages(asked.packages, of_rank, told)
        if asked.per_gpu:
            environment.update(task_variables(environment))
        environment |= read_secrets(asked.secret, environment, told)
        process = subprocess.Popen(asked.command, env=environment, preexec_fn=begin)
    except StoppedBefore:
        return 0
    except CannotStart as problem:
        print(f"trainway: {problem}", file=sys.stderr, flush=True)
        return problem.status
    except OSError as problem:
        print(f"trainway: {asked.command[0]} cannot start: {problem}", file=sys.stderr, flush=True)
        return NOT_FOUND if isinstance(problem, FileNotFoundError) else NOT_EXECUTABLE
    stop, status = ProgramStop(process.pid, asked.command, signal.Signals[asked.stop_signal], asked.grace), None
    while True:
        status = reaped(process.pid) if status is None else status
        if told.ends:
            kill_descendants()
        elif told.look():
            stop.tell()
        if status is not None:
            if told.asked_at is None or not is_anything_left():
                break
            stop.tell_survivors()
        time.sleep(SECONDS_BETWEEN_LOOKS)
    kill_descendants()
    if told.asked_at is not None:
        return 0
    return 128 - status if status < 0 else status


def rank_environment(told: "Mapping[str, str]") -> "dict[str, str]":
    """Return the environment of a rank: mpirun's, and the variables by which PyTorch's `env://` finds the others.

    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html (read 2026-11-23) has the names of Open MPI.
    """
    rank, on_node = told["OMPI_COMM_WORLD_RANK"], told["OMPI_COMM_WORLD_LOCAL_SIZE"]
    return {
        "RANK": rank,
        "WORLD_SIZE": told["OMPI_COMM_WORLD_SIZE"],
        "LOCAL_RANK": told["OMPI_COMM_WORLD_LOCAL_RANK"],
        "LOCAL_WORLD_SIZE": on_node,
        "MASTER_ADDR": told.get("TRAINWAY_HEAD", "localhost"),
        "MASTER_PORT": told.get("PET_RDZV_ENDPOINT", "").rpartition(":")[2] or "29500",
        **told,
        "GROUP_RANK": str(int(rank) // int(on_node)),
        "TRAINWAY_NODE_RANK": str(int(rank) // int(on_node)),
    }
