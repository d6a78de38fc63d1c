"""Three steps of Muon on four ranks in each of some ways; rank 0 saves the weights after each to DIRECTORY/WAY.pt.

torchrun --nproc-per-node 4 muon_steps.py DIRECTORY WAY…

A way is `single`, in which each rank does what one process does without the others, or a layout: `fsdp`, `hsdp`, or
`tp`. With `-gathered` behind the layout, every rank computes the update of every matrix. For each way, rank 0 prints a
JSON object with `way`, and with `computed`, the number of updates that each rank computed.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tests.training.each_layout import of_all_ranks
from training.optim import muon
from training.optim.muon import Muon
from training.parallel.world import connect, meet, this_process


def main() -> None:
    """Take the three steps in each way, and save the weights."""
    directory, *ways = sys.argv[1:]
    computed: list[torch.Size] = []
    compute, divided = muon.orthogonalised, (muon.group_of, muon.orthogonalised_here)  # type: ignore[attr-defined]

    def counted(matrices: torch.Tensor) -> torch.Tensor:
        computed.append(matrices.shape)
        return compute(matrices)

    muon.orthogonalised = counted
    connect(this_process(), meet())
    for way in ways:
        layout, _, gathered = way.partition("-")
        everywhere = (lambda _: None, orthogonalised_everywhere)
        muon.group_of, muon.orthogonalised_here = everywhere if gathered else divided  # type: ignore[attr-defined]
        computed.clear()
        weights = weights_after_steps(layout)
        found = of_all_ranks(len(computed))
        if dist.get_rank() == 0:
            torch.save(weights, Path(directory) / f"{way}.pt")
            print("RESULT " + json.dumps({"way": way, "computed": found}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def weights_after_steps(layout: str) -> dict[str, torch.Tensor]:
    """Return the whole weights after three steps in a layout."""
    torch.manual_seed(0)
    # Wide, tall, and with rows that four ranks cannot share evenly.
    model = nn.Sequential(nn.Linear(24, 40, bias=False), nn.GELU(), nn.Linear(40, 24, bias=False), nn.Linear(24, 34))
    if layout in ("fsdp", "hsdp", "tp"):
        names = {"fsdp": ("shard",), "hsdp": ("replicate", "shard"), "tp": ("shard", "tp")}[layout]
        mesh = init_device_mesh("cpu", (4,) if layout == "fsdp" else (2, 2), mesh_dim_names=names)
        if layout == "tp":
            parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
            mesh = mesh["shard"]
        fully_shard(model, mesh=mesh)
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    biases = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": biases, "weight_decay": 0.0}]
    optimizer = Muon(groups, 0.95, lr=0.02, betas=(0.9, 0.95), eps=1e-8)
    for step in range(3):
        # The same samples on every rank: the mean of their gradients is that of one.
        # They are more than a matrix has rows: without all its singular values, an update would be made of rounding.
        torch.manual_seed(step)
        model(torch.randn(256, 24)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {
        name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in model.state_dict().items()
    }


def orthogonalised_everywhere(direction: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of matrices that every rank gathers and computes."""
    if not isinstance(direction, DTensor):
        return muon.orthogonalised(direction)
    whole = direction.redistribute(placements=[Replicate()] * direction.device_mesh.ndim).to_local()
    # Every rank has the whole update, so it takes its part without communication.
    divided = DTensor.from_local(muon.orthogonalised(whole), direction.device_mesh, run_check=False)
    return divided.redistribute(placements=direction.placements).to_local()


if __name__ == "__main__":
    main()
