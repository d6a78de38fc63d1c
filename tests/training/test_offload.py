"""What a device has no memory for is on the host, and nothing else changes.

On a CPU, host and device are the same memory: what a GPU has to copy is shown with PyTorch's meta device in its place.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from training.config.presets import PRESETS


@pytest.mark.parametrize(("offload", "weights"), [(True, "cpu"), (False, "meta")])
def test_weights_are_on_the_host_and_what_a_layer_counts_is_on_the_device(offload: bool, weights: str) -> None:
    import torch

    from training.model.decoder import Decoder, materialize

    with torch.device("meta"):
        model = Decoder(replace(PRESETS["tiny"], experts=4), 64)
    names = [name for name, _ in model.named_buffers()]
    kept = set(model.state_dict())
    materialize(model, torch.device("meta"), offload)
    assert {parameter.device.type for parameter in model.parameters()} == {weights}
    assert {buffer.device.type for buffer in model.buffers()} == {"meta"}
    assert [name for name, _ in model.named_buffers()] == names
    assert set(model.state_dict()) == kept, "what was not to be in a checkpoint is not"


@pytest.mark.exhaustive
def test_a_run_on_the_host_is_resumed_and_learns_the_same(launch: Any, job: dict[str, Any], tmp_path: Path) -> None:
    def losses(name: str, *last_steps: str, **sections: Any) -> list[str]:
        checkpoint = {"location": str(tmp_path / f"{name}-checkpoints")}
        changes = {"checkpoint": checkpoint, "optimizer": {"learning_rate": 0.002, "state": "bf16"}, **sections}
        for last_step in last_steps:
            run = launch(job | changes, 2, "--until-step", last_step, name=name)
            run.finish()
        return [event["loss_hex"] for event in run.events("step")]

    straight = losses("straight", "4")
    assert len(straight) == 4
    assert losses("resumed", "2", "4", memory={"offload": True}) == straight
