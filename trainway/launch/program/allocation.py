"""The nodes of a job: their node group, their number, and the ranks on each."""

from __future__ import annotations

from dataclasses import dataclass

from trainway.launch.program.program import Program
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff, Nodes


@dataclass(frozen=True)
class Allocation:
    """`nodes` nodes of the node group `group`, with `ranks` processes each."""

    group: Nodes
    nodes: int
    ranks: int

    @property
    def world_size(self) -> int:
        """The number of ranks on all nodes together."""
        return self.nodes * self.ranks


def allocate(program: Program, hand_off: HandOff, catalogue: Catalogue, group: str | None = None) -> Allocation:
    """Return nodes of the named group, or else of the first group with accelerators that is large enough.

    Raises UsageError where there is no such group, the job is larger than it can become, or a degree of parallelism
    does not divide: before anything is submitted.
    """
    chosen = _named(hand_off, group) if group else _large_enough(program, hand_off, catalogue)
    if program.nodes > chosen.max_count:
        raise _too_large(program, f"{chosen.name} of {hand_off.platform} has at most {chosen.max_count}")
    ranks = _ranks(chosen, catalogue)
    try:
        program.check_ranks(program.nodes * ranks)
    except ValueError as error:
        raise usage_error(
            f"{program.name} cannot run on {program.nodes} x {chosen.instance_type} with {ranks} ranks each",
            why=str(error),
            fix=f"change `nodes`, {program.rank_keys} of the job file",
        ) from None
    return Allocation(chosen, program.nodes, ranks)


def check_team(program: Program, hand_off: HandOff) -> None:
    """Raise UsageError if the platform does not have the job's team."""
    if program.team is not None and program.team not in hand_off.teams:
        raise usage_error(
            f"{program.name} cannot run for the team {program.team}",
            why=f"the platform {hand_off.platform} has no such team",
            fix=f"use one of {', '.join(hand_off.teams)}" if hand_off.teams else "leave `team` out of the job file",
        )


def _named(hand_off: HandOff, name: str) -> Nodes:
    found = next((group for group in hand_off.node_groups if group.name == name), None)
    if found is None:
        names = ", ".join(group.name for group in hand_off.node_groups)
        raise usage_error(
            f"there is no node group {name}", why=f"{hand_off.platform} has {names}", fix="name one of them"
        )
    return found


def _large_enough(program: Program, hand_off: HandOff, catalogue: Catalogue) -> Nodes:
    # Where no node has an accelerator, the platform is one that trains on processors.
    accelerated = [group for group in hand_off.node_groups if catalogue[group.instance_type].accelerator]
    groups = accelerated or list(hand_off.node_groups)
    found = next((group for group in groups if group.max_count >= program.nodes), None)
    if found is None:
        largest = max(groups, key=lambda group: group.max_count)
        why = f"the largest group of {hand_off.platform}, {largest.name}, has at most {largest.max_count}"
        raise _too_large(program, why)
    return found


def _ranks(group: Nodes, catalogue: Catalogue) -> int:
    # A deploy of before has not said it.
    return group.ranks or catalogue[group.instance_type].ranks


def _too_large(program: Program, why: str) -> UsageError:
    return usage_error(
        f"{program.name} asks for {program.nodes} nodes",
        why=why,
        fix="lower `nodes`, or raise the group's max_count and deploy",
    )
