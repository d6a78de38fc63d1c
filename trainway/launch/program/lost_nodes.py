"""Compute and check the node counts of a run that continues after a node failure."""

from __future__ import annotations

from collections.abc import Callable

from trainway.launch.program.request import Request
from trainway.launch.target.lost_node_options import LostNodeOptions
from trainway.spec.errors import UsageError


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


def check_lost_nodes(request: Request, options: LostNodeOptions, cannot: Callable[[str, str], UsageError]) -> None:
    """Check that the node group can hold the spare nodes, and that the job can train after it loses nodes.

    The job must support each number of nodes from `min_nodes` to the `nodes` of the job file. Raises the error that
    `cannot` returns for a reason and a remedy.
    """
    group, nodes = request.allocation.group, started_nodes(request, options)
    if nodes > group.max_count:
        why = f"it requests {nodes} nodes with its spare nodes, and {group.name} has at most {group.max_count}"
        raise cannot(why, "lower --spare-nodes, or raise the group's max_count and deploy")
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
