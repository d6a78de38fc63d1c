"""Compare the weights of replicas, to detect a device that computes wrong results or memory that has changed.

With `parallel.dp_replicate`, several ranks hold the same part of the weights. They start from the same weights, and all
of them get the same sum of the gradients, so their weights stay equal to the bit. If a bit flips in the weights of one
rank, or in the results of its optimizer, the rank differs from the others. Its gradients then reach all ranks. The run
therefore ends, and resumes from a checkpoint whose weights were compared before it was saved.

Each rank reads the bits of its weights as integers, and adds up the integers in blocks. A single flipped bit always
changes a sum.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import starmap

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from training.errors import ReplicasDiffer
from training.hosts.suspect_nodes import NamedBy, suspect, this_attempt
from training.hosts.this_node import name_of, this_node
from training.observe import replica_verdict
from training.observe.metrics import Metrics
from training.observe.replica_verdict import Doubt
from training.parallel.world import World
from training.setup import Setup

# Number of weights that are added up into one sum. A rank of a large job has a few hundred blocks.
BLOCK = 1 << 22
# Largest number of tensors, and of ranks, that a message names one by one.
_NAMED = 4
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Deviation:
    """The ranks of a replica group whose weights differ from those of the others, and the names of the tensors.

    `others` is the number of ranks that agree with each other. It is 0 if no majority of the ranks agrees.
    """

    ranks: tuple[int, ...]
    tensors: tuple[str, ...]
    others: int
    step: int = 0
    blocks: tuple[int, ...] = field(default=(), compare=False)
    """The blocks whose sums differ."""
    sums: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    """The sums of these blocks on each rank: [ranks, blocks]. Both fields are empty if a majority agrees."""


class ReplicaComparison:
    """Compares the weights of the replicas of a run at intervals.

    Every rank creates one instance per attempt. `metrics` is None on all ranks but rank 0.
    """

    def __init__(self, setup: Setup, metrics: Metrics | None) -> None:
        self._model, self._world, self._run, self._metrics = setup.local.model, setup.world, setup.directory, metrics
        # The job file may have -1, with ranks for one replica only.
        self._every = setup.job.replica_check.every if self._world.layout.dp_replicate > 1 else None
        self._doubts = replica_verdict.kept(self._run) if self._every is not None else []
        # The sums of the steps since the last comparison. The verdict on two replicas needs those of the first error.
        self._sums: list[tuple[int, Tensor]] = []

    def after(self, step: int, save: bool) -> None:
        """Compare the weights of all replicas if a comparison is due. Every rank calls this after every step.

        `save` says whether the job saves the step. A comparison waits for the rank's device.

        Raises:
            ReplicasDiffer: the weights of some replicas differ. Every rank raises it, with the same message.
        """
        if self._every is None:
            return
        is_due = save or step % self._every == 0 or any(step == each.step for each in self._doubts)
        if is_due or self._world.layout.dp_replicate == 2:
            self._sums.append((step, block_sums(self._model).to(self._world.device)))
        if is_due:
            self._compare(step)

    def _compare(self, step: int) -> None:
        world = self._world
        steps, sums = [each for each, _ in self._sums], torch.stack([each for _, each in self._sums])
        self._sums = []
        found = first_deviation(self._model, steps, sums, world)
        differs = torch.tensor(float(found is not None))
        dist.all_reduce(differs, op=dist.ReduceOp.MAX)
        if not differs.item():
            self._judge(step, sums[-1].cpu())
            return
        gathered: list[tuple[str, Deviation | None]] = [("", None)] * world.size
        dist.all_gather_object(gathered, (f"{this_node()}, {_device(world.device)}", found))
        deviations = list(dict.fromkeys(each for _, each in gathered if each is not None))
        devices = [device for device, _ in gathered]
        first = min(each.step for each in deviations)
        reason = f"the weights of replicas differ after step {first}: " + "; ".join(
            _sentence(each, devices) for each in deviations
        )
        if self._metrics:
            ranks = sorted({rank for each in deviations for rank in each.ranks})
            self._metrics.event(
                "replicas_differ", step=first, ranks=ranks, devices=[devices[rank] for rank in ranks], reason=reason
            )
            doubts = [
                Doubt(each.step, each.ranks, tuple(devices[rank] for rank in each.ranks), each.blocks, each.sums)
                for each in deviations
                if not each.others
            ]
            replica_verdict.keep(doubts, self._run)
            for each in deviations:
                if each.others:
                    self._suspect([devices[rank] for rank in each.ranks], "fault", first)
        # The reason is that of the barrier in `divergence.py`.
        dist.barrier()
        raise ReplicasDiffer(
            f"{reason}. The checkpoints are from before, and the run resumes from the newest. If the same node is "
            "named again, replace it"
        )

    def _judge(self, step: int, sums: Tensor) -> None:
        """Report which replicas were wrong in an earlier attempt, after this step was repeated without a difference."""
        doubts = [each for each in self._doubts if each.step == step]
        if not doubts:
            return
        group = tuple(dist.get_process_group_ranks(self._world.mesh.get_group("dp_replicate")))
        mine = next(((each, each.wrong(sums)) for each in doubts if each.ranks == group), None)
        gathered: list[tuple[Doubt, tuple[int, ...]] | None] = [None] * self._world.size
        dist.all_gather_object(gathered, mine)
        self._doubts = []
        if self._metrics:
            found = list(dict.fromkeys(each for each in gathered if each is not None))
            ranks = sorted({doubt.ranks[index] for doubt, wrong in found for index in wrong})
            reason = "; ".join(starmap(replica_verdict.verdict, found)) or "the ranks of the replicas are others now"
            self._metrics.event("replicas_judged", step=step, ranks=ranks, reason=reason)
            print(f"the replicas agree after step {step}, which was taken again: {reason}", flush=True)
            (self._run / replica_verdict.FILE).unlink(missing_ok=True)
            for doubt, wrong in found:
                # If all were wrong, the steps are not deterministic, or other software takes them now.
                if len(wrong) < len(doubt.ranks):
                    self._suspect([doubt.devices[index] for index in wrong], "judged", step)

    def _suspect(self, devices: Sequence[str], kind: NamedBy, step: int) -> None:
        """Name the nodes of devices whose weights were wrong."""
        for device in devices:
            node, _, of_node = device.partition(", ")
            reason = f"wrong weights after step {step} on {of_node}"
            suspect(self._run, name_of(node), kind, reason, this_attempt())


def compare(model: nn.Module, world: World) -> Deviation | None:
    """Return how the weights of the replicas of this rank differ, or None. Every rank of the group calls this."""
    return first_deviation(model, [0], block_sums(model).to(world.device).unsqueeze(0), world)


def first_deviation(model: nn.Module, steps: Sequence[int], sums: Tensor, world: World) -> Deviation | None:
    """Return the first difference between the replicas of this rank, or None if they never differed.

    Every rank of the group calls this. `sums` has the sums of this rank's blocks: [steps, blocks].
    """
    group = world.mesh.get_group("dp_replicate")
    gathered = [torch.empty_like(sums) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, sums, group=group)
    names, of_ranks = [name for name, _ in _blocks(model)], torch.stack(gathered).cpu()
    for index, step in enumerate(steps):
        if found := deviation(names, of_ranks[:, index], dist.get_process_group_ranks(group), step):
            return found
    return None


def deviation(names: Sequence[str], sums: Tensor, ranks: Sequence[int], step: int = 0) -> Deviation | None:
    """Return which ranks differ from the others.

    Args:
        names: The tensor of each block.
        sums: The sum of each block on each rank: [ranks, blocks].
        ranks: The ranks in the order of `sums`.
        step: The step after which the sums were computed.
    """
    differing = (sums != sums[0]).any(0).nonzero().flatten().tolist()
    if not differing:
        return None
    tensors = tuple(dict.fromkeys(names[block] for block in differing))
    # Ranks agree if they have the same sums for all blocks.
    values = [tuple(row) for row in sums[:, differing].tolist()]
    ((value, others), *_) = Counter(values).most_common(1)
    if 2 * others <= len(ranks):
        return Deviation(tuple(ranks), tensors, 0, step, tuple(differing), tuple(values))
    differ = tuple(rank for rank, each in zip(ranks, values, strict=True) if each != value)
    return Deviation(differ, tensors, others, step)


@torch.no_grad()
def block_sums(model: nn.Module) -> Tensor:
    """Return the sum of the bits of each block of this rank's weights, on their device: [blocks]."""
    return torch.stack([bits.sum(dtype=torch.int64) for _, bits in _blocks(model)])


def _blocks(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, weight in model.named_parameters():
        part = weight.to_local() if isinstance(weight, DTensor) else weight
        bits = part.detach().contiguous().view(_INTEGERS[part.element_size()]).flatten()
        for block in torch.split(bits, BLOCK):
            yield name, block


def _sentence(found: Deviation, devices: Sequence[str]) -> str:
    named = ", ".join(f"{rank} ({devices[rank]})" for rank in found.ranks[:_NAMED])
    rest = f" and {len(found.ranks) - _NAMED} more" if len(found.ranks) > _NAMED else ""
    more = f" and {len(found.tensors) - _NAMED} more tensors" if len(found.tensors) > _NAMED else ""
    tensors = ", ".join(found.tensors[:_NAMED]) + more
    if not found.others:
        return f"ranks {named}{rest} differ from each other in {tensors}, and no majority of them agrees"
    subject = f"rank {named} differs" if len(found.ranks) == 1 else f"ranks {named}{rest} differ"
    return f"{subject} from the {found.others} other replicas in {tensors}"


def _device(device: torch.device) -> str:
    """Return a name of the device by which an administrator finds it: the UUID of a GPU, or the process ID."""
    if device.type == "cuda":
        return f"{device} with the UUID {torch.cuda.get_device_properties(device).uuid}"
    return f"process {os.getpid()}"
