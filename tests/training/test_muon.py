"""Muon makes the update of PyTorch's own on one process, and the same one in every layout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.torchrun_server import TorchrunServer

if TYPE_CHECKING:
    from torch import Tensor

PROGRAM = Path(__file__).parent / "muon_steps.py"


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


@pytest.fixture(scope="module")
def single(torchrun: TorchrunServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """The weights that one process ends with."""
    return run(torchrun, "single", 1, tmp_path_factory.mktemp("muon") / "weights.pt")


@pytest.mark.parametrize("layout", ["fsdp", "hsdp", "tp"])
def test_every_layout_makes_the_step_of_one_process(
    layout: str, single: dict[str, Tensor], torchrun: TorchrunServer, tmp_path: Path
) -> None:
    import torch

    weights = run(torchrun, layout, 4, tmp_path / "weights.pt")
    assert weights.keys() == single.keys()
    for name, weight in weights.items():
        assert torch.allclose(weight, single[name], atol=2e-4), (name, (weight - single[name]).abs().max())


@pytest.mark.parametrize("layout", ["fsdp", "hsdp", "tp"])
def test_ranks_divide_the_matrices_and_the_result_is_the_same_to_the_bit(
    layout: str, torchrun: TorchrunServer, tmp_path: Path
) -> None:
    import torch

    printed: list[str] = []
    divided = run(torchrun, layout, 4, tmp_path / "divided.pt", printed=printed)
    everywhere = run(torchrun, layout, 4, tmp_path / "everywhere.pt", "gathered", printed=printed)
    assert divided.keys() == everywhere.keys()
    assert all(torch.equal(weight, everywhere[name]) for name, weight in divided.items())
    shares, wholes = (sorted(int(count) for count in re.findall(r"COMPUTED (\d+)", each)) for each in printed)
    # Three matrices in three steps, over four owners, or twice over two. With tensor parallelism, four ranks divide two
    # of the matrices, and two the third.
    assert wholes == [9, 9, 9, 9]
    assert shares == {"fsdp": [0, 3, 3, 3], "hsdp": [3, 3, 6, 6], "tp": [0, 0, 6, 6]}[layout]


def test_experts_learn_what_one_process_teaches_them_and_ranks_share_the_work(torchrun: TorchrunServer) -> None:
    layouts: dict[str, dict[str, Any]] = {
        # The last of four ranks has no expert.
        "FSDP": {"variant": {"experts": 6}},
        "EP x HSDP": {"variant": {"experts": 4}, "parallel": {"ep": 2, "dp_shard": 2, "dp_replicate": 2}},
        "TP x FSDP": {"variant": {"experts": 6}, "parallel": {"tp": 2}},
        "EP x TP": {"variant": {"experts": 4}, "parallel": {"ep": 2, "tp": 2}},
        "TP x FSDP, an expert on each rank": {"variant": {"experts": 2}, "parallel": {"tp": 2}},
    }
    printed = torchrun.run_program(PROGRAM.with_name("muon_of_experts.py"), json.dumps(layouts), ranks=4)
    found = [json.loads(line.removeprefix("RESULT ")) for line in printed.splitlines() if line.startswith("RESULT ")]
    assert [each["layout"] for each in found] == list(layouts)
    for each in found:
        # An update is computed in bf16, whose last place is 4e-3.
        assert each["error"] < 4e-3, each
    # Three matrices of each expert in four layers: those of a rank, or those that ranks with slices of them divide.
    assert [each["computed"] for each in found] == [
        [24, 24, 24, 0],
        [24, 24, 24, 24],
        [24, 12, 24, 12],
        [12, 12, 12, 12],
        [6, 6, 6, 6],
    ]


def run(
    torchrun: TorchrunServer, layout: str, ranks: int, out: Path, *options: str, printed: list[str] | None = None
) -> dict[str, Tensor]:
    """The weights after the program ran in a layout."""
    import torch

    output = torchrun.run_program(PROGRAM, layout, str(out), *options, ranks=ranks)
    if printed is not None:
        printed.append(output)
    weights: dict[str, Tensor] = torch.load(out)
    return weights
