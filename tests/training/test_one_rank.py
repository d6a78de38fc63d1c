"""A model that one rank has whole is trained without FSDP, and learns the same to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.representatives import with_representatives
from training.config import Job
from training.config.presets import shape_of

if TYPE_CHECKING:
    from torch import Tensor

UNTIED = {"variant": {"tied": False}}
JOBS: dict[str, dict[str, Any]] = {
    "fp32": {"precision": "fp32"},
    "bf16, tied": {},
    "fp16": {"precision": "fp16", **UNTIED},
    "experts": {"variant": {"experts": 4}},
    "loss in chunks, AC, compile": {
        "memory": {"loss_chunks": 4, "activation_checkpointing": "full"},
        "compile": "aot_eager",
        **UNTIED,
    },
    "float8": {"float8": {"recipe": "rowwise"}, **UNTIED},
}


def learned(changes: dict[str, Any]) -> tuple[bool, Tensor, dict[str, Tensor]]:
    """Whether FSDP is there, and after a step of four micro-batches the loss and the gradient of every parameter."""
    import torch
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

    from tests.training.built_model import built_model
    from training.observe.laps import Laps
    from training.step import accumulate

    document = {
        "name": "one-rank",
        "model": "tiny",
        "data": {"train": "nowhere", "sequence_length": 32},
        "batch": {"global": 8, "micro": 2},
        "steps": 1,
    }
    job = Job.model_validate(document | {"precision": "bf16"} | changes)
    shape = replace(shape_of("tiny", job.variant), hidden=32, feed_forward=48)
    _, local = built_model(job, 64, end_of_text=0, shape=shape)
    tokens = torch.randint(0, 64, (8, 33), generator=torch.Generator().manual_seed(7))
    loss = accumulate(local, local.batch(tokens), 2, Laps(torch.device("cpu")))
    gradients = {}
    for name, parameter in local.model.named_parameters():
        assert parameter.grad is not None
        gradients[name] = parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
    return isinstance(local.model, FSDPModule), loss, gradients


@pytest.mark.parametrize("job", with_representatives(JOBS, ("fp16", "bf16, tied")))
@pytest.mark.usefixtures("one_rank")
def test_one_rank_has_the_gradients_of_fsdp(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from training.parallel import apply

    if job == "float8":
        pytest.importorskip("torchao")
    sharded, loss, gradients = learned(JOBS[job])
    assert not sharded
    monkeypatch.setattr(apply, "_is_whole", lambda *_: False)
    torch._dynamo.reset()
    sharded, other_loss, others = learned(JOBS[job])
    assert sharded
    assert torch.equal(loss, other_loss)
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        assert gradient.dtype == torch.float32
        assert gradient.count_nonzero()
        assert torch.equal(gradient, others[name]), name


@pytest.mark.usefixtures("one_rank")
def test_layers_and_chunks_of_the_loss_are_each_compiled_once_for_all() -> None:
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    learned({"compile": "aot_eager"})
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


@pytest.mark.usefixtures("one_rank")
def test_what_only_fsdp_does_still_brings_it() -> None:
    sharded, *_ = learned({"memory": {"offload": True}})
    assert sharded
