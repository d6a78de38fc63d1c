"""Compute and check the node counts of a run that continues after a node failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trainway.launch.program.allocation import Demand, bound_of
from trainway.launch.program.launcher_words import launchers_of_command
from trainway.launch.program.program import Program
from trainway.launch.program.request import Request
from trainway.launch.target.lost_node_options import LostNodeOptions
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.sections.orchestrator import Orchestrator


def least_nodes(request: Request, options: LostNodeOptions) -> int:
    """Return the minimum number of nodes for training. Without `min_nodes`, it is the `nodes` of the job file."""
    return request.allocation.nodes if options.min_nodes is None else options.min_nodes


def started_nodes(request: Request, options: LostNodeOptions) -> int:
    """Return the number of nodes that the target starts, including spare nodes."""
    return request.allocation.nodes + options.spare_nodes


def torchrun_nodes(request: Request, options: LostNodeOptions) -> int | str:
    """Return the value of torchrun's option `--nnodes`: a number, or `minimum:maximum` for a run that continues.

    torchrun keeps nodes beyond the maximum as spare nodes.
    """
    nodes = request.allocation.nodes
    return f"{least_nodes(request, options)}:{nodes}" if options.continues else nodes


def waiting_for_success(request: Request, seconds: int) -> Request:
    """Return the request with a starter that reports a failure of its node some seconds late.

    A node without ranks, such as a spare node, fails when the run succeeds: torchrun waits in a rendezvous that closes.
    """
    program = request.program
    assert program.started_by is not None
    options = (*program.started_by, f"--late-failure={seconds}")
    return replace(request, program=replace(program, started_by=options))


def demand_of(program: Program, hand_off: HandOff, options: object) -> Demand:
    """Return what decides whether a job with these options of its target can start.

    Kueue, task governance, and Slurm start a job with all its nodes, including spare nodes. KAI and the scheduler of
    Kubernetes start a job that continues with as many nodes as there are, and torchrun begins with the least number.
    """
    borrows = bool(getattr(options, "borrow", False))
    if not isinstance(options, LostNodeOptions):
        return Demand(program.nodes, program.nodes, borrows)
    most = program.nodes + options.spare_nodes
    is_kubernetes = Orchestrator(hand_off.orchestrator).is_kubernetes
    as_a_whole = hand_off.cluster.queue in ("kueue", "task governance") or not is_kubernetes
    if as_a_whole or not options.continues:
        return Demand(most, most, borrows)
    return Demand(options.min_nodes or program.nodes, most, borrows)


def check_lost_nodes(request: Request, options: LostNodeOptions, cannot: Callable[[str, str], UsageError]) -> None:
    """Check that the node group can hold the spare nodes, and that the job can train after it loses nodes.

    The job must support each number of nodes from `min_nodes` to the `nodes` of the job file. Raises the error that
    `cannot` returns for a reason and a remedy.
    """
    group, nodes = request.allocation.group, started_nodes(request, options)
    demand = demand_of(request.program, request.hand_off, options)
    bound = bound_of(request.program, request.hand_off, group, demand)
    most = group.max_count if demand.nodes < nodes else bound.nodes
    if nodes > most:
        why = f"it requests {nodes} nodes with its spare nodes, and {bound.why}"
        raise cannot(why, f"lower --spare-nodes, or {bound.fix}")
    program, most, ranks = request.program, request.allocation.nodes, request.allocation.ranks
    least = least_nodes(request, options)
    if not 1 <= least <= most:
        raise cannot(f"it asks for {most} nodes, and for {least} at least", f"name 1 to {most}")
    for count in range(least, most):
        try:
            program.check_ranks(count * ranks)
        except ValueError as error:
            why = f"with {count} of its {most} nodes {error}"
            raise cannot(why, f"raise --min-nodes, or change {program.rank_keys} of the job file") from None


def check_program(program: Program, options: LostNodeOptions, cannot: Callable[[str, str], UsageError]) -> None:
    """Check that torchrun starts the ranks of a program of others again, and that they may be fewer.

    Raises the error that `cannot` returns for a reason and a remedy.
    """
    if program.started_by is None:
        return
    launchers = launchers_of_command(program.command)
    if [each.launcher for each in launchers] != ["torchrun"]:
        why = "only torchrun replaces a lost node, and the program is not started by it alone"
        raise cannot(why, "start it by torchrun, or leave --min-nodes and --spare-nodes out")
    if not program.life_cycle.process_restarts:
        why = "torchrun starts no ranks again after a node is lost: `life_cycle.process_restarts` is 0"
        raise cannot(why, "write `life_cycle: {process_restarts: 3}` into the job file")
    if options.min_nodes is not None and options.min_nodes < program.nodes and not program.elastic:
        why = "nothing says that the program trains on fewer ranks as it does on all"
        raise cannot(why, "write `elastic: true` into the section `run` if it does, or leave --min-nodes out")
