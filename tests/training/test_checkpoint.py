"""A checkpoint is complete or it is not there, on disk and in S3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from training import checkpoint, config, storage
from training.checkpoint import COMMIT, Progress
from training.errors import UserError
from training.model import Decoder, initialise, rotary_cache
from training.optimizer import make_optimizer
from training.parallel.fsdp import shard
from training.presets import PRESETS

pytestmark = pytest.mark.usefixtures("one_rank")
IDENTITY: dict[str, Any] = {"model": {"layers": 4}, "seed": 0}


@pytest.fixture(params=["disk", "s3"])
def location(request: pytest.FixtureRequest) -> str:
    """A place for checkpoints."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/checkpoints/x"
    return str(request.getfixturevalue("tmp_path") / "checkpoints")


def trained(seed: int, steps: int) -> tuple[Decoder, torch.optim.Optimizer]:
    model = Decoder(PRESETS["tiny"], 300)
    initialise(model, seed)
    shard(model, init_device_mesh("cpu", (1,)), "fp32")
    optimizer = make_optimizer(model, config.Optimizer())
    for _ in range(steps):
        model(torch.arange(16).reshape(1, 16), rotary_cache(PRESETS["tiny"], 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def tensors(model: Decoder, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    moments = [value for state in optimizer.state_dict()["state"].values() for value in state.values()]
    return [getattr(tensor, "_local_tensor", tensor) for tensor in [*model.state_dict().values(), *moments]]


def test_what_is_loaded_is_what_was_saved(location: str) -> None:
    saved, loaded = trained(seed=0, steps=3), trained(seed=1, steps=0)
    progress = Progress(step=3, samples=24, loss=1.25)
    checkpoint.save(location, *saved, progress, IDENTITY)
    assert checkpoint.newest(location) == 3
    assert checkpoint.load(location, 3, *loaded, IDENTITY) == progress
    for one, other in zip(tensors(*saved), tensors(*loaded), strict=True):
        assert torch.equal(one, other)


def test_the_newest_are_kept_and_an_interrupted_save_is_never_taken(location: str) -> None:
    state = trained(seed=0, steps=1)
    for step in (1, 2, 3):
        checkpoint.save(location, *state, Progress(step, 8 * step, 2.0), IDENTITY)
    for step in (1, 4):
        storage.delete(checkpoint.place(location, step), [COMMIT])
        storage.write(storage.join(checkpoint.place(location, step), "__0_0.distcp"), b"half")

    assert checkpoint.newest(location) == 3
    checkpoint.prune(location, keep=1)
    steps = {name.partition("/")[0] for name in storage.list_files(location)}
    assert steps == {"step-00000003", "step-00000004"}, "what is newer than the newest may still be being written"


def test_nothing_is_found_where_nothing_is(location: str) -> None:
    assert checkpoint.newest(location) is None


def test_a_checkpoint_of_another_run_is_refused_with_the_difference(location: str) -> None:
    state = trained(seed=0, steps=1)
    checkpoint.save(location, *state, Progress(1, 8, 2.0), IDENTITY)
    with pytest.raises(
        UserError, match=r"step-00000001 is a checkpoint of another run: seed was 0, is 7\. Give the job"
    ):
        checkpoint.load(location, 1, *state, IDENTITY | {"seed": 7})


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_does_not_exist_is_one_clear_message() -> None:
    with pytest.raises(UserError, match="s3://nowhere/x: there is no such bucket"):
        checkpoint.newest("s3://nowhere/x")


def test_ranks_write_to_the_platforms_prefixes_and_read_back(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    location, layout = f"{s3}/checkpoints/spread", '{"prefixes": 2, "part_bytes": 67108864, "gbps_each": 10}'
    monkeypatch.setenv("TRAINWAY_CHECKPOINTS", layout)
    saved, loaded = trained(seed=0, steps=1), trained(seed=1, steps=0)
    for step in (1, 2):
        checkpoint.save(location, *saved, Progress(step, 8 * step, 2.0), IDENTITY)
    assert {"step-00000002/.metadata", "step-00000002/p000/__0_0.distcp"} == {
        name for name in storage.list_files(location) if name.startswith("step-00000002/")
    }
    monkeypatch.delenv("TRAINWAY_CHECKPOINTS")
    assert checkpoint.load(location, 2, *loaded, IDENTITY).step == 2
    for one, other in zip(tensors(*saved), tensors(*loaded), strict=True):
        assert torch.equal(one, other)
    checkpoint.prune(location, keep=1)
    assert all(name.startswith("step-00000002/") for name in storage.list_files(location))


def test_a_checkpoint_that_was_spread_over_prefixes_is_one_directory_on_a_file_system(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the file system shows it that mirrors the bucket."""
    location = f"{s3}/checkpoints/mirrored"
    monkeypatch.setenv("TRAINWAY_CHECKPOINTS", '{"prefixes": 2}')
    saved, loaded = trained(seed=0, steps=1), trained(seed=1, steps=0)
    checkpoint.save(location, *saved, Progress(1, 8, 2.0), IDENTITY)
    for name in storage.list_files(location):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        storage.download(storage.join(location, name), file)
    assert checkpoint.newest(str(tmp_path)) == 1
    assert checkpoint.load(str(tmp_path), 1, *loaded, IDENTITY).step == 1
