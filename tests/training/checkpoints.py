"""Small models that were trained for some steps, and what the tests of checkpoints do with them and their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.representatives import with_representatives
from training import config
from training.config.presets import PRESETS, Shape
from training.hosts import location_files

if TYPE_CHECKING:
    import torch

    from training.checkpoint import Progress, Saver
    from training.model.decoder import Decoder

IDENTITY: dict[str, Any] = {"model": {"layers": 4}, "seed": 0}
# The time of a save depends on the number of tensors, and so on the number of layers.
SMALL = replace(PRESETS["tiny"], layers=2, hidden=64, heads=2, key_value_heads=1, feed_forward=128)
# For tests whose requests to S3 are covered by other tests.
IN_S3_AT_NIGHT = pytest.mark.parametrize("location", with_representatives(("disk", "s3"), ("disk",)), indirect=True)


def trained(
    seed: int,
    steps: int,
    settings: config.Optimizer = config.Optimizer(),  # noqa: B008
    shape: Shape = SMALL,
) -> tuple[Decoder, torch.optim.Optimizer]:
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    from training.model.decoder import Decoder, initialize, rotary_cache
    from training.optim.optimizer import make_optimizer
    from training.parallel.fsdp import shard

    model = Decoder(shape, 300)
    initialize(model, seed)
    shard(model, init_device_mesh("cpu", (1,)), "fp32")
    optimizer = make_optimizer(model, settings)
    for _ in range(steps):
        model(torch.arange(16).reshape(1, 16), rotary_cache(shape, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def save(location: str, state: tuple[Decoder, torch.optim.Optimizer], progress: Progress) -> None:
    from training import checkpoint

    checkpoint.save(location, progress.step, checkpoint.state_of(*state, progress, IDENTITY))


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def change(file: str, damage: Callable[[bytes], bytes | None]) -> None:
    content = location_files.read(file)
    assert content is not None
    changed = damage(content)
    if changed is None:
        location_files.delete(str(Path(file).parent).replace("s3:/", "s3://"), [Path(file).name])
    else:
        location_files.write(file, changed)


def tensors(model: Decoder, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    moments = [value for state in optimizer.state_dict()["state"].values() for value in state.values()]
    return [getattr(tensor, "_local_tensor", tensor) for tensor in [*model.state_dict().values(), *moments]]


def saver_of(location: str, told: list[str], damaged: tuple[int, ...] = (), **settings: Any) -> Saver:
    import torch
    import torch.distributed as dist

    from training.checkpoint import Destination, Saver

    every = {"every": 2, **settings}
    group = dist.new_group(backend="gloo")
    checkpoints = config.Checkpoint.model_validate(every)
    destination = Destination(location, None, group, damaged=damaged)
    return Saver(destination, checkpoints, torch.device("cpu"), lambda: told.append("failed"))


def whole(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor if type(tensor) is torch.Tensor else tensor.dequantize()
