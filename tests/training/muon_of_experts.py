"""Started by torchrun: compare Muon's steps of a model with experts, in several layouts, with those of one process.

For each layout of the command line, the program prints one JSON object with `error`, the largest relative error of a
parameter's change after two steps, `parameter`, its name, and `computed`, the number of matrices of experts that each
rank orthogonalized in a step.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from tests.training.built_model import built_model
from tests.training.each_layout import measure_each, of_all_ranks
from tests.training.layout_gradients import END_OF_TEXT, VOCABULARY, job_of, small
from training.config import Job
from training.model.decoder import Decoder, initialize
from training.optim import muon
from training.optim.optimizer import make_optimizer
from training.optim.optimizer import step as take_step

STEPS = 2


def main() -> None:
    """Measure each layout."""
    measure_each(differences)


def differences(changes: dict[str, Any]) -> dict[str, Any]:
    """Return how far the steps of a layout are from those of one process."""
    job = job_of({"optimizer": {"name": "muon", "learning_rate": 0.02}, **changes})
    _, local = built_model(job, VOCABULARY, END_OF_TEXT, small(job))
    computed = train(local.model, job)
    found = {name: whole(parameter) for name, parameter in local.model.named_parameters()}
    found_computed = of_all_ranks(computed)
    if dist.get_rank() != 0:
        return {}  # rank 0 alone prints
    single = Decoder(small(job), VOCABULARY)
    initialize(single, job.seed)
    before = {name: parameter.detach().clone() for name, parameter in single.named_parameters()}
    train(single, job)
    expected = dict(single.named_parameters())
    assert found.keys() == expected.keys()
    errors = {name: relative(found[name], expected[name], before[name]) for name in found}
    worst = max(errors, key=lambda name: errors[name])
    return {"error": errors[worst], "parameter": worst, "computed": found_computed}


def relative(found: Tensor, expected: Tensor, before: Tensor) -> float:
    """Return the relative error of a change. It is infinite, and so the largest, for what is not a number."""
    error = (found - expected).norm() / (expected - before).norm()
    return error.nan_to_num(nan=torch.inf).item()


def train(model: Decoder, job: Job) -> int:
    """Take the steps with random gradients, and return how many matrices of experts this rank computed in one."""
    computed: list[int] = []
    compute = muon.orthogonalised

    def counted(matrices: Tensor) -> Tensor:
        computed.append(len(matrices) if matrices.ndim == 3 else 0)
        return compute(matrices)

    muon.orthogonalised = counted
    optimizer = make_optimizer(model, job.optimizer)
    for step in range(1, STEPS + 1):
        for name, parameter in model.named_parameters():
            # All singular values of a random matrix count. Without some, an update would consist of rounding.
            generator = torch.Generator().manual_seed(hash_of(name) + step)
            parameter.grad = part_of(torch.randn(parameter.shape, generator=generator), parameter)
        take_step(optimizer, step, torch.zeros(()))
    muon.orthogonalised = compute
    return sum(computed) // STEPS


def hash_of(name: str) -> int:
    """Return a number of a name that every process computes."""
    return int.from_bytes(name.encode()[-6:], "big")


def part_of(tensor: Tensor, parameter: nn.Parameter) -> Tensor:
    """Return a tensor as it is sharded if it belongs to a sharded parameter."""
    if not isinstance(parameter, DTensor):
        return tensor
    (chunk,) = parameter.__create_chunk_list__()
    sizes = parameter.to_local().shape
    offsets = chunk.offsets if sizes.numel() else (0,) * len(sizes)
    local = tensor[tuple(slice(at, at + size) for at, size in zip(offsets, sizes, strict=True))].contiguous()
    return DTensor.from_local(
        local,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def whole(parameter: nn.Parameter) -> Tensor:
    """Return all of a parameter, on every rank."""
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter


if __name__ == "__main__":
    main()
