"""Muon makes the update of PyTorch's own on one process, and the same one in every layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.representatives import chosen, with_representatives
from tests.training.torchrun_server import TorchrunServer

if TYPE_CHECKING:
    from torch import Tensor

PROGRAM = Path(__file__).parent / "muon_steps.py"
LAYOUTS = ("fsdp", "hsdp", "tp")


@pytest.mark.parametrize("shape", [(32, 32), (16, 64), (64, 16), (3, 16, 32)])
def test_the_singular_values_of_an_update_come_near_one(shape: tuple[int, ...]) -> None:
    import torch

    from training.optim.muon import orthogonalised

    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(shape)))
    assert values.min() > 0.4
    assert values.max() < 1.4


def test_a_step_is_that_of_pytorch_s_muon_and_adamw() -> None:
    import torch

    from training.optim.muon import Muon

    torch.manual_seed(0)
    matrices, bias = [torch.randn(16, 48), torch.randn(48, 16)], torch.randn(16)
    gradients = [[torch.randn_like(tensor) for tensor in (*matrices, bias)] for _ in range(3)]
    ours = [tensor.clone().requires_grad_() for tensor in (*matrices, bias)]
    theirs = [tensor.clone().requires_grad_() for tensor in (*matrices, bias)]
    groups = [{"params": ours[:2], "weight_decay": 0.1}, {"params": ours[2:], "weight_decay": 0.0}]
    optimizer = Muon(groups, 0.95, lr=0.02, betas=(0.9, 0.95), eps=1e-8)
    muon = torch.optim.Muon(theirs[:2], lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(theirs[2:], 0.02, (0.9, 0.95), 1e-8, 0.0)
    for step in gradients:
        for parameters, optimizers in ((ours, [optimizer]), (theirs, [muon, adamw])):
            for parameter, gradient in zip(parameters, step, strict=True):
                parameter.grad = gradient.clone()
            for each in optimizers:
                each.step()
    for our, their, before in zip(ours, theirs, (*matrices, bias), strict=True):
        # Of the step, not of the weight; the iterations run in bf16, whose last place is 4e-3.
        assert (our - their).norm() / (their - before).norm() < 4e-3
    assert torch.equal(ours[2], theirs[2])


class Stepped(NamedTuple):
    """Weights after three steps, and the number of matrix updates that each rank computed."""

    weights: dict[str, Tensor]
    computed: list[int]


@pytest.fixture(scope="module")
def stepped(torchrun: TorchrunServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stepped]:
    """Three steps without the other ranks, and in each layout with matrices that ranks divide and that all compute."""
    import torch

    directory = tmp_path_factory.mktemp("muon")
    ways = ["single", *(f"{layout}{how}" for layout in LAYOUTS for how in ("", "-gathered"))]
    computed = {each["way"]: each["computed"] for each in results(torchrun, PROGRAM, str(directory), *ways)}
    return {way: Stepped(torch.load(directory / f"{way}.pt"), computed[way]) for way in ways}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_makes_the_step_of_one_process(layout: str, stepped: dict[str, Stepped]) -> None:
    import torch

    single, weights = stepped["single"].weights, stepped[layout].weights
    assert weights.keys() == single.keys()
    for name, weight in weights.items():
        assert torch.allclose(weight, single[name], atol=2e-4), (name, (weight - single[name]).abs().max())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ranks_divide_the_matrices_and_the_result_is_the_same_to_the_bit(
    layout: str, stepped: dict[str, Stepped]
) -> None:
    import torch

    divided, everywhere = stepped[layout].weights, stepped[f"{layout}-gathered"].weights
    assert divided.keys() == everywhere.keys()
    assert all(torch.equal(weight, everywhere[name]) for name, weight in divided.items())
    shares, wholes = (sorted(stepped[way].computed) for way in (layout, f"{layout}-gathered"))
    # Three matrices in three steps, over four owners, or twice over two. With tensor parallelism, four ranks divide two
    # of the matrices, and two the third.
    assert wholes == [9, 9, 9, 9]
    assert shares == {"fsdp": [0, 3, 3, 3], "hsdp": [3, 3, 6, 6], "tp": [0, 0, 6, 6]}[layout]


# The layout of a model with experts, and the matrices that each rank computes: three of each expert in two layers. They
# are those of a rank, or those that ranks with slices of them divide.
OF_EXPERTS: dict[str, tuple[dict[str, Any], list[int]]] = {
    # The last of four ranks has no expert.
    "FSDP": ({"variant": {"experts": 6, "layers": 2}}, [12, 12, 12, 0]),
    "EP x HSDP": (
        {"variant": {"experts": 4, "layers": 2}, "parallel": {"ep": 2, "dp_shard": 2, "dp_replicate": 2}},
        [12, 12, 12, 12],
    ),
    "TP x FSDP": ({"variant": {"experts": 6, "layers": 2}, "parallel": {"tp": 2}}, [12, 6, 12, 6]),
    "EP x TP": ({"variant": {"experts": 4, "layers": 2}, "parallel": {"ep": 2, "tp": 2}}, [6, 6, 6, 6]),
    "TP x FSDP, an expert on each rank": (
        {"variant": {"experts": 2, "layers": 2}, "parallel": {"tp": 2}},
        [3, 3, 3, 3],
    ),
}


@pytest.fixture(scope="module")
def of_experts(torchrun: TorchrunServer, request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    layouts = {name: layout for name, (layout, _) in chosen(request, OF_EXPERTS, "layout").items()}
    found = results(torchrun, PROGRAM.with_name("muon_of_experts.py"), json.dumps(layouts))
    return {each["layout"]: each for each in found}


@pytest.mark.parametrize("layout", with_representatives(OF_EXPERTS, ("EP x TP",)))
def test_experts_learn_what_one_process_teaches_them_and_ranks_share_the_work(
    layout: str, of_experts: dict[str, dict[str, Any]]
) -> None:
    # An update is computed in bf16, whose last place is 4e-3.
    assert of_experts[layout]["error"] < 4e-3, of_experts[layout]["parameter"]
    assert of_experts[layout]["computed"] == OF_EXPERTS[layout][1]


def results(torchrun: TorchrunServer, program: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return what a program printed about each way in which four ranks took steps."""
    printed = torchrun.run_program(program, *arguments, ranks=4)
    return [json.loads(line.removeprefix("RESULT ")) for line in printed.splitlines() if line.startswith("RESULT ")]
