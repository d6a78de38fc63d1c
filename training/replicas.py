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
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from training.errors import ReplicasDiffer
from training.hosts.this_node import this_node
from training.observe.metrics import Metrics
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


def is_due(setup: Setup, step: int, save: bool) -> bool:
    """Return whether the job compares its replicas after this step. `save` says whether the job saves the step."""
    every = setup.job.replica_check.every
    return every is not None and (save or step % every == 0)


def check_replicas(setup: Setup, step: int, metrics: Metrics | None) -> None:
    """Compare the weights of all replicas. Every rank calls this function, which waits for the rank's device.

    Raises:
        ReplicasDiffer: the weights of some replicas differ. Every rank raises it, with the same message.
    """
    world = setup.world
    if world.layout.dp_replicate == 1:  # The job file may have -1, with ranks for one replica only.
        return
    found = compare(setup.local.model, world)
    differs = torch.tensor(float(found is not None))
    dist.all_reduce(differs, op=dist.ReduceOp.MAX)
    if not differs.item():
        return
    gathered: list[tuple[str, Deviation | None]] = [("", None)] * world.size
    dist.all_gather_object(gathered, (f"{this_node()}, {_device(world.device)}", found))
    deviations = list(dict.fromkeys(each for _, each in gathered if each is not None))
    devices = [device for device, _ in gathered]
    reason = f"the weights of replicas differ after step {step}: " + "; ".join(
        _sentence(each, devices) for each in deviations
    )
    if metrics:
        ranks = sorted({rank for each in deviations for rank in each.ranks})
        metrics.event(
            "replicas_differ", step=step, ranks=ranks, devices=[devices[rank] for rank in ranks], reason=reason
        )
    # The reason is that of the barrier in `divergence.py`.
    dist.barrier()
    raise ReplicasDiffer(
        f"{reason}. The checkpoints are from before, and the run resumes from the newest. If the same node is named "
        "again, replace it"
    )


@torch.no_grad()
def compare(model: nn.Module, world: World) -> Deviation | None:
    """Return how the weights of the replicas of this rank differ, or None. Every rank of the group calls this."""
    group = world.mesh.get_group("dp_replicate")
    names, sums = zip(*_block_sums(model), strict=True)
    own = torch.stack(sums).to(world.device)
    gathered = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, own, group=group)
    return deviation(names, torch.stack(gathered).cpu(), dist.get_process_group_ranks(group))


def deviation(names: Sequence[str], sums: Tensor, ranks: Sequence[int]) -> Deviation | None:
    """Return which ranks differ from the others.

    Args:
        names: The tensor of each block.
        sums: The sum of each block on each rank: [ranks, blocks].
        ranks: The ranks in the order of `sums`.
    """
    differing = (sums != sums[0]).any(0).nonzero().flatten().tolist()
    if not differing:
        return None
    tensors = tuple(dict.fromkeys(names[block] for block in differing))
    # Ranks agree if they have the same sums for all blocks.
    values = [tuple(row) for row in sums[:, differing].tolist()]
    ((value, others), *_) = Counter(values).most_common(1)
    if 2 * others <= len(ranks):
        return Deviation(tuple(ranks), tensors, 0)
    return Deviation(tuple(rank for rank, each in zip(ranks, values, strict=True) if each != value), tensors, others)


def _block_sums(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, weight in model.named_parameters():
        part = weight.to_local() if isinstance(weight, DTensor) else weight
        bits = part.detach().contiguous().view(_INTEGERS[part.element_size()]).flatten()
        for block in torch.split(bits, BLOCK):
            yield name, block.sum(dtype=torch.int64)


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
