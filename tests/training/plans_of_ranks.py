"""Ranks save a tensor that is divided over them, four times. The last rank has one tensor more from the third time on.

torchrun --nproc-per-node N plans_of_ranks.py LOCATION

Rank 0 prints how many global plans it had begun after each save, and `right` if each rank loads what was saved.
"""

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from training.checkpoint import step_location, stored
from training.checkpoint.plans import KeptPlans, Planner
from training.checkpoint.stores import LoadPlanner, reader
from training.parallel.world import connect, meet, this_process


def main() -> None:
    """Save and load."""
    process = this_process()
    connect(process, meet())
    mesh = init_device_mesh("cpu", (process.world_size,))
    begun, counts, right = [0], [], True
    make = Planner.create_global_plan

    def counted(planner: Planner, every: list[Any]) -> Any:
        begun[0] += any(plan.items for plan in every)
        return make(planner, every)

    Planner.create_global_plan = counted  # type: ignore[method-assign, assignment]
    kept = KeptPlans()
    for step in range(4):
        more = {"more": torch.full((3,), float(step))} if step >= 2 and process.rank == process.world_size - 1 else {}
        whole = distribute_tensor(torch.arange(9.0) * (step + 1), mesh, [Shard(0)])
        stored.save(sys.argv[1], step, {"model": {"whole": whole, **more}}, kept=kept)
        counts.append(begun[0])
        found = {"model": {"whole": torch.zeros_like(whole), **{name: torch.zeros(3) for name in more}}}
        source = step_location(sys.argv[1], step)
        state_dict_loader.load(found, storage_reader=reader(source), planner=LoadPlanner())
        loaded = found["model"]["whole"]
        assert isinstance(loaded, DTensor)
        right = right and torch.equal(loaded.to_local(), whole.to_local())
        right = right and all(torch.equal(found["model"][name], tensor) for name, tensor in more.items())
    every = [False] * process.world_size
    dist.all_gather_object(every, right)
    if process.rank == 0:
        print("planned", *counts, "right" if all(every) else "wrong", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
