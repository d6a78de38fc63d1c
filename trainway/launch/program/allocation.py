"""The nodes of a job: their group, their number, the ranks on each, and the accelerators and disks that it uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from trainway.launch.platform.locations import team_of
from trainway.launch.program.program import Program
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Accelerator
from trainway.spec.handoff import HandOff, Nodes
from trainway.spec.jobs.obtainable import Bound, obtainable
from trainway.spec.sections.orchestrator import Orchestrator

# PyTorch reaches the accelerators of AWS only by the Neuron SDK.
FIX_ACCELERATOR = (
    "use a node group with NVIDIA GPUs, start a program of the Neuron SDK by a section `run` in the place of `model`, "
    "or set `device: cpu`"
)

LOCAL_DISK = "TRAINWAY_LOCAL_DISK"
"""Environment variable with a directory on the local disk of a node. training/checkpoint/node_directory.py reads it."""
LOCAL_DISK_HERE = PurePosixPath("/var/tmp")
LOCAL_DISK_IN_POD = PurePosixPath("/mnt/local-disk")
# lifecycle_scripts/local_disks.sh creates it on nodes whose disks it mounts, for the files of all users.
LOCAL_DISK_ON_SLURM = PurePosixPath("/opt/dlami/nvme/jobs")


@dataclass(frozen=True)
class Allocation:
    """`nodes` nodes of the node group `group`, with `ranks` processes each.

    The job can start on nodes of one of `others` instead, which are like those of `group`, in the order of the file.
    `accelerator` has the accelerators of a node, or is None if its instance type has none. `types_without_disk`
    are those of the group that have no NVMe instance storage.
    """

    group: Nodes
    nodes: int
    ranks: int
    others: tuple[Nodes, ...] = ()
    accelerator: Accelerator | None = None
    types_without_disk: tuple[str, ...] = ()

    world_size: int = field(init=False)
    """The number of ranks on all nodes together."""
    groups: tuple[Nodes, ...] = field(init=False)
    """The node groups in one of which the job starts, in the order of the file."""

    def __post_init__(self) -> None:
        """Compute what follows from the other fields."""
        object.__setattr__(self, "world_size", self.nodes * self.ranks)
        object.__setattr__(self, "groups", (self.group, *self.others))

    def waiting(self, job: str) -> str | None:
        """Return a sentence about a job that starts only after nodes were added. None if a group has the nodes."""
        if any(group.count >= self.nodes for group in self.groups):
            return None
        group = self.group
        return f"nodes of {job}: {group.name} has {group.count}, and the job waits until {self.nodes} are there"


@dataclass(frozen=True)
class Demand:
    """What decides whether a job can start.

    `nodes` is the number of nodes without which it does not start. `most` is the number that it requests, with spare
    nodes. A job that `borrows` has the option `--borrow` of Slurm. A job that is not `on_platform` has the types of the
    node groups and not their nodes.
    """

    nodes: int
    most: int
    borrows: bool = False
    on_platform: bool = True


def allocate(
    program: Program,
    hand_off: HandOff,
    catalogue: Catalogue,
    group: str | None = None,
    demand: Demand | None = None,
    team: str | None = None,
) -> Allocation:
    """Return nodes of the named group, or else of the first groups with accelerators that are large enough.

    `team` is the team of the job on the platform. None: it is that of the job file, or the only one.

    Raises UsageError where there is no such group, the program cannot use its accelerators, the job can never have its
    nodes, or a degree of parallelism does not divide: before anything is submitted.
    """
    demand = demand or Demand(program.nodes, program.nodes)
    team = team or team_of(hand_off, program.team)
    chosen = [_named(hand_off, group)] if group else _large_enough(program, hand_off, catalogue, team, demand)
    accelerator = catalogue[chosen[0].instance_type].accelerator
    if accelerator and not is_usable(program, accelerator):
        raise _unusable(program, chosen[0].name, chosen[0].instance_type, accelerator)
    if (bound := _bound(hand_off, chosen[0], team, demand)).nodes < demand.nodes:
        why = bound.why
        if bound.nodes == chosen[0].max_count:
            why = f"{chosen[0].name} of {hand_off.platform} has at most {bound.nodes}"
        raise _too_large(program, demand, why, bound)
    ranks = _ranks(chosen[0], catalogue)
    try:
        program.check_ranks(program.nodes * ranks)
    except ValueError as error:
        raise usage_error(
            f"{program.name} cannot run on {program.nodes} x {chosen[0].instance_type} with {ranks} ranks each",
            why=str(error),
            fix=f"change `nodes`, {program.rank_keys} of the job file",
        ) from None
    types = (chosen[0].instance_type, *chosen[0].or_types)
    without_disk = tuple(each for each in types if catalogue[each].instance_store is None)
    return Allocation(chosen[0], program.nodes, ranks, tuple(chosen[1:]), accelerator, without_disk)


def bound_of(program: Program, hand_off: HandOff, group: Nodes, demand: Demand) -> Bound:
    """Return the most nodes of a group that the job can ever have."""
    return _bound(hand_off, group, team_of(hand_off, program.team), demand)


def _bound(hand_off: HandOff, group: Nodes, team: str | None, demand: Demand) -> Bound:
    found = obtainable(hand_off, group, team, borrows=demand.borrows)
    if demand.on_platform:
        return found.ever
    fix = "raise the group's max_count and deploy"
    return Bound(group.max_count, f"{found.now.key.rpartition('.')[0]}.max_count", found.at_most.why, fix)


def _named(hand_off: HandOff, name: str) -> Nodes:
    found = next((group for group in hand_off.node_groups if group.name == name), None)
    if found is None:
        names = ", ".join(group.name for group in hand_off.node_groups)
        raise usage_error(
            f"there is no node group {name}", why=f"{hand_off.platform} has {names}", fix="name one of them"
        )
    return found


def _large_enough(
    program: Program, hand_off: HandOff, catalogue: Catalogue, team: str | None, demand: Demand
) -> list[Nodes]:
    """Return the first group in which the job can start, and the groups like it in which it can start as well."""
    # Where no node has an accelerator, the platform is one that trains on processors.
    accelerated = [group for group in hand_off.node_groups if catalogue[group.instance_type].accelerator]
    usable = [group for group in accelerated if is_usable(program, catalogue[group.instance_type].accelerator)]
    groups = usable or accelerated or list(hand_off.node_groups)
    bounds = {group.name: _bound(hand_off, group, team, demand) for group in groups}
    for nodes in (demand.most, demand.nodes):
        if found := [group for group in groups if bounds[group.name].nodes >= nodes]:
            others = found[1:] if demand.on_platform and _keeps_in_one_group(hand_off, demand) else []
            return [found[0], *(group for group in others if _is_like(group, found[0]))]
    largest = max(groups, key=lambda group: bounds[group.name].nodes)
    bound = bounds[largest.name]
    why = bound.why
    if bound.nodes == largest.max_count:
        why = f"the largest group of {hand_off.platform}, {largest.name}, has at most {bound.nodes}"
    raise _too_large(program, demand, why, bound)


def _keeps_in_one_group(hand_off: HandOff, demand: Demand) -> bool:
    """Return whether all nodes of a job are of one group if the job is free to start in each of several groups.

    Groups can be in different zones, and groups with EFA have cluster placement groups of their own. Kueue gives a job
    one flavor, Run:ai one node pool, and Slurm one partition. Where no queue shares the nodes of EKS, the pods of a job
    require nodes of one group. KAI and task governance have quotas of types, and would mix the groups of a type.
    """
    if demand.most == 1 or not Orchestrator(hand_off.orchestrator).is_kubernetes:
        return True
    queue = hand_off.cluster.queue
    return queue in ("kueue", "run-ai") or (queue == "none" and hand_off.orchestrator == "eks")


def _is_like(group: Nodes, other: Nodes) -> bool:
    """Return whether a pod or a batch script for nodes of one group suits nodes of the other group."""
    own = {"name", "count", "max_count", "most", "fixed_by", "team_nodes"}
    return group.model_dump(exclude=own) == other.model_dump(exclude=own)


def _ranks(group: Nodes, catalogue: Catalogue) -> int:
    # A deploy of before has not said it.
    return group.ranks or catalogue[group.instance_type].ranks


def _too_large(program: Program, demand: Demand, why: str, bound: Bound) -> UsageError:
    spare = demand.most - program.nodes
    with_spare = f", {spare} of them spare" if spare > 0 else ""
    fewer = f"lower `nodes` to {bound.nodes - spare}, or " if bound.nodes > spare >= 0 else ""
    return usage_error(
        f"{program.name} asks for {max(demand.most, program.nodes)} nodes{with_spare}",
        why=why,
        fix=f"{fewer}{bound.fix}",
    )


def is_usable(program: Program, accelerator: Accelerator | None) -> bool:
    """Return whether the program can use the accelerators of an instance type, or the type has none."""
    return accelerator is None or program.vendors is None or accelerator.vendor in program.vendors


def why_unusable(instance_type: str, accelerator: Accelerator) -> str:
    """Return why Trainway's training job cannot use the accelerators of an instance type.

    https://awsdocs-neuron.readthedocs-hosted.com/en/latest/training/index.html (read 2026-11-29)
    """
    return (
        f"{instance_type} has {accelerator.count} {accelerator.name}, which PyTorch reaches only by the Neuron SDK, "
        "and the training job uses CUDA"
    )


def _unusable(program: Program, group: str, instance_type: str, accelerator: Accelerator) -> UsageError:
    """Return the error for a program that cannot use the accelerators of the node group `group`."""
    what = f"{program.name} cannot train on the node group {group}"
    return usage_error(what, why=why_unusable(instance_type, accelerator), fix=FIX_ACCELERATOR)


def local_disk(program: Program, allocation: Allocation, orchestrator: str) -> PurePosixPath | None:
    """Return the directory on the disk of each node; None if the program uses none, or the nodes have none."""
    if not program.local_disk or _why_no_disk(allocation, orchestrator):
        return None
    return LOCAL_DISK_IN_POD if Orchestrator(orchestrator).is_kubernetes else LOCAL_DISK_ON_SLURM


def _why_no_disk(allocation: Allocation, orchestrator: str) -> str | None:
    """Return why a job has no local disk on the nodes of an allocation, or None if it has one."""
    if allocation.types_without_disk:
        return f"no NVMe instance storage is in {' and '.join(allocation.types_without_disk)}"
    if orchestrator == Orchestrator.HYPERPOD_EKS:
        # lifecycle_scripts/containers/place.sh has the reason. A path of the node is closed to pods of teams.
        return "the kubelet of HyperPod's nodes keeps the files of pods on another volume"
    return None


def local_disk_warning(program: Program, allocation: Allocation, orchestrator: str, *, on_nodes: bool) -> str | None:
    """Return the warning that the nodes of a run have no local disk, or None if they need none.

    `on_nodes` says whether the run is on nodes of the platform, and not a training job of SageMaker.
    """
    if not program.local_disk:
        return None
    why = (
        _why_no_disk(allocation, orchestrator)
        if on_nodes
        else "a training job of SageMaker leaves its disks when it ends"
    )
    if why is None:
        return None
    return (
        f"warning: {program.name} keeps no checkpoints on local disks: {why}: leave checkpoint.local_disk out to keep "
        "them in memory, or launch on nodes with local disks"
    )
