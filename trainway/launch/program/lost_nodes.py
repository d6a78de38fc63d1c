"""Runs that continue after a node failure: the options `--min-nodes` and `--spare-nodes`, and the nodes of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from trainway.launch.program.allocation import Demand, bound_of
from trainway.launch.program.launcher_words import launchers_of_command
from trainway.launch.program.program import Program
from trainway.launch.program.request import Request
from trainway.launch.target.options import Flag
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.sections.orchestrator import Orchestrator


@dataclass(frozen=True, kw_only=True)
class LostNodeOptions:
    """Options of a run that continues after a node failure.

    `min_nodes`: minimum number of nodes for training; None is all nodes. `spare_nodes`: number of additional nodes. A
    spare node runs no ranks until it replaces a failed node.
    """

    min_nodes: Annotated[
        int | None,
        Flag("Continue with at least N nodes when nodes are lost. Default: all nodes.", metavar="N", least=1),
    ] = None
    spare_nodes: Annotated[
        int, Flag("Request N more nodes, which replace nodes that are lost. Default: 0.", metavar="N", least=0)
    ] = 0

    @property
    def continues(self) -> bool:
        """Whether the run continues on its remaining nodes after a node failure."""
        return bool(self.spare_nodes) or self.min_nodes is not None


@dataclass(frozen=True)
class NodeCounts:
    """The nodes of a run: those that the target has `started`, with spare nodes, and the `least` for training.

    `nnodes` is the value of `--nnodes` for the launcher of the ranks: a number, or `least:most` for a run that
    `continues` on its remaining nodes after a node failure. It keeps nodes beyond the most as spare nodes.
    """

    started: int
    least: int
    nnodes: int | str
    continues: bool


def node_counts(request: Request, options: LostNodeOptions) -> NodeCounts:
    """Return the numbers of nodes of a run. Without `min_nodes`, it trains on the `nodes` of the job file."""
    nodes, continues = request.allocation.nodes, options.continues
    least = nodes if options.min_nodes is None else options.min_nodes
    return NodeCounts(nodes + options.spare_nodes, least, f"{least}:{nodes}" if continues else nodes, continues)


def waiting_for_success(request: Request, seconds: int) -> Request:
    """Return the request with a starter that reports a failure of its node some seconds late.

    A node without ranks, such as a spare node, fails when the run succeeds: torchrun, or training.elastic in its place,
    waits in a rendezvous that closes.
    """
    program = request.program
    assert program.started_by is not None
    options = (*program.started_by, f"--late-failure={seconds}")
    return replace(request, program=replace(program, started_by=options))


def demand_of(program: Program, hand_off: HandOff, options: object) -> Demand:
    """Return what decides whether a job with these options of its target can start.

    Kueue, task governance, and Slurm start a job with all its nodes, including spare nodes. KAI and the scheduler of
    Kubernetes start a job that continues with as many nodes as there are, and the launchers begin with the least
    number.
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
    group, counts = request.allocation.group, node_counts(request, options)
    nodes, least = counts.started, counts.least
    demand = demand_of(request.program, request.hand_off, options)
    bound = bound_of(request.program, request.hand_off, group, demand)
    most = group.max_count if demand.nodes < nodes else bound.nodes
    if nodes > most:
        why = f"it requests {nodes} nodes with its spare nodes, and {bound.why}"
        raise cannot(why, f"lower --spare-nodes, or {bound.fix}")
    program, most, ranks = request.program, request.allocation.nodes, request.allocation.ranks
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
