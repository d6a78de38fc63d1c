"""A checkpoint is complete or it is not there, on disk and in S3."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.representatives import with_representatives
from training import config
from training.config.presets import PRESETS, Shape
from training.errors import UserError
from training.hosts import location_files

if TYPE_CHECKING:
    import torch

    from training.checkpoint import Progress, Saver
    from training.model.decoder import Decoder

pytestmark = pytest.mark.usefixtures("one_rank")
IDENTITY: dict[str, Any] = {"model": {"layers": 4}, "seed": 0}
# The time of a save depends on the number of tensors, and so on the number of layers.
SMALL = replace(PRESETS["tiny"], layers=2, hidden=64, heads=2, key_value_heads=1, feed_forward=128)
# For tests whose access to S3 other tests of this file also make.
IN_S3_AT_NIGHT = pytest.mark.parametrize("location", with_representatives(("disk", "s3"), ("disk",)), indirect=True)


@pytest.fixture(params=["disk", "s3"])
def location(request: pytest.FixtureRequest) -> str:
    """A place for checkpoints."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/checkpoints/x"
    return str(request.getfixturevalue("tmp_path") / "checkpoints")


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


def test_what_is_loaded_is_what_was_saved(location: str) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import Progress

    saved, loaded = trained(seed=0, steps=3), trained(seed=1, steps=0)
    progress = Progress(step=3, samples=24, loss=1.25)
    save(location, saved, progress)
    assert checkpoint.newest(location) == 3
    assert checkpoint.load(location, 3, *loaded, IDENTITY) == progress
    for one, other in zip(tensors(*saved), tensors(*loaded), strict=True):
        assert torch.equal(one, other)


def test_the_newest_are_kept_and_an_interrupted_save_is_never_taken(location: str) -> None:
    from training import checkpoint
    from training.checkpoint import COMMIT, Progress

    state = trained(seed=0, steps=1)
    for step in (1, 2, 3):
        save(location, state, Progress(step, 8 * step, 2.0))
    for step in (1, 4):
        location_files.delete(checkpoint.step_location(location, step), [COMMIT])
        location_files.write(location_files.join(checkpoint.step_location(location, step), "__0_0.distcp"), b"half")

    assert checkpoint.newest(location) == 3
    checkpoint.prune(location, keep=1)
    steps = {name.partition("/")[0] for name in location_files.list_files(location)}
    assert steps == {"step-00000003", "step-00000004"}, "what is newer than the newest may still be being written"


def test_nothing_is_found_where_nothing_is(location: str) -> None:
    from training import checkpoint

    assert checkpoint.newest(location) is None


@IN_S3_AT_NIGHT
def test_a_checkpoint_of_another_run_is_refused_with_the_difference(location: str) -> None:
    from training import checkpoint
    from training.checkpoint import Progress

    state = trained(seed=0, steps=1)
    save(location, state, Progress(1, 8, 2.0))
    with pytest.raises(
        UserError, match=r"step-00000001 is a checkpoint of another run: seed was 0, is 7\. Give the job"
    ):
        checkpoint.load(location, 1, *state, IDENTITY | {"seed": 7})


@IN_S3_AT_NIGHT
def test_what_is_to_be_kept_for_good_is_kept(location: str) -> None:
    from training import checkpoint
    from training.checkpoint import Progress

    state = trained(seed=0, steps=1)
    for step in range(1, 8):
        save(location, state, Progress(step, 8 * step, 2.0))
        checkpoint.prune(location, keep=2, keep_every=3)
    steps = {int(name.partition("/")[0][5:]) for name in location_files.list_files(location)}
    assert steps == {3, 6, 7}


def test_resume_skips_what_is_damaged_and_says_what_is_wrong(location: str, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import COMMIT, Progress

    saved, loaded = trained(seed=0, steps=3), trained(seed=1, steps=0)
    for step in range(1, 7):
        save(location, saved, Progress(step, 8 * step, 2.0))
    damages: dict[int, tuple[str, Callable[[bytes], bytes | None], str]] = {
        6: (COMMIT, flipped, "the checksum of its content is"),
        5: ("__0_0.distcp", lambda content: content[:-1], "were written"),
        4: ("__0_0.distcp", lambda _: None, "is missing, of"),
        3: ("__0_0.distcp", flipped, "the checksum of its content is"),
    }
    for step, (name, damage, _) in damages.items():
        change(location_files.join(checkpoint.step_location(location, step), name), damage)

    resumed = checkpoint.resume(location, None, *loaded, IDENTITY)
    assert resumed is not None
    assert (resumed.progress.step, resumed.source) == (2, checkpoint.step_location(location, 2))
    assert resumed.damaged == (6, 5, 4, 3)
    for one, other in zip(tensors(*saved), tensors(*loaded), strict=True):
        assert torch.equal(one, other)
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: a checkpoint is sk")]
    for (step, (name, _, complaint)), warning in zip(damages.items(), warnings, strict=True):
        assert all(part in warning for part in (f"step-{step:08d}", name, complaint)), warning

    for step in (1, 2):
        change(location_files.join(checkpoint.step_location(location, step), COMMIT), lambda content: content[:100])
    with pytest.raises(UserError, match=r"no checkpoint can be read: .*step-00000006.*step-00000001.* begin anew"):
        checkpoint.resume(location, None, *loaded, IDENTITY)


def test_a_damaged_checkpoint_is_no_complete_one_while_it_is_written_anew(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import Progress

    state = trained(seed=0, steps=1)
    save(location, state, Progress(1, 8, 2.0))

    def no_more_room(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(torch, "save", no_more_room)
        with pytest.raises(UserError, match=r"step-00000001: the checkpoint cannot be written: no space left .*rank 0"):
            save(location, state, Progress(1, 8, 2.0))
    assert checkpoint.newest(location) is None
    save(location, state, Progress(1, 8, 2.0))
    assert checkpoint.newest(location) == 1


def test_every_byte_of_every_tensor_is_under_its_checksum(tmp_path: Path) -> None:
    from training import checkpoint
    from training.checkpoint import Progress
    from training.checkpoint.stores import reader

    saved = trained(seed=0, steps=1)
    save(str(tmp_path), saved, Progress(1, 8, 2.0))
    source = checkpoint.step_location(str(tmp_path), 1)
    parts = reader(source).read_metadata().storage_data.values()
    assert sum(part.length for part in parts) == (Path(source) / "__0_0.distcp").stat().st_size
    assert all(part.transform_descriptors == ["crc32@trainway/1"] for part in parts)


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_does_not_exist_is_one_clear_message() -> None:
    from training import checkpoint

    with pytest.raises(UserError, match="s3://nowhere/x: there is no such bucket"):
        checkpoint.newest("s3://nowhere/x")


def test_ranks_write_to_the_platforms_prefixes_and_read_back(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import Progress

    location, layout = f"{s3}/checkpoints/spread", '{"prefixes": 2, "part_bytes": 67108864, "gbps_each": 10}'
    monkeypatch.setenv("TRAINWAY_CHECKPOINTS", layout)
    saved, loaded = trained(seed=0, steps=1), trained(seed=1, steps=0)
    for step in (1, 2):
        save(location, saved, Progress(step, 8 * step, 2.0))
    assert {"step-00000002/.metadata", "step-00000002/p000/__0_0.distcp"} == {
        name for name in location_files.list_files(location) if name.startswith("step-00000002/")
    }
    monkeypatch.delenv("TRAINWAY_CHECKPOINTS")
    assert checkpoint.load(location, 2, *loaded, IDENTITY).step == 2
    for one, other in zip(tensors(*saved), tensors(*loaded), strict=True):
        assert torch.equal(one, other)
    checkpoint.prune(location, keep=1)
    assert all(name.startswith("step-00000002/") for name in location_files.list_files(location))


def test_a_checkpoint_that_was_spread_over_prefixes_is_one_directory_on_a_file_system(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the file system shows it that mirrors the bucket."""
    from training import checkpoint
    from training.checkpoint import Progress

    location = f"{s3}/checkpoints/mirrored"
    monkeypatch.setenv("TRAINWAY_CHECKPOINTS", '{"prefixes": 2}')
    saved, loaded = trained(seed=0, steps=1), trained(seed=1, steps=0)
    save(location, saved, Progress(1, 8, 2.0))
    for name in location_files.list_files(location):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        location_files.download(location_files.join(location, name), file)
    assert checkpoint.newest(str(tmp_path)) == 1
    assert checkpoint.load(str(tmp_path), 1, *loaded, IDENTITY).step == 1


def saver_of(location: str, told: list[str], damaged: tuple[int, ...] = (), **settings: Any) -> Saver:
    import torch
    import torch.distributed as dist

    from training.checkpoint import Saver

    every = {"every": 2, **settings}
    group = dist.new_group(backend="gloo")
    checkpoints = config.Checkpoint.model_validate(every)
    return Saver(
        location, checkpoints, None, torch.device("cpu"), group, lambda: told.append("failed"), damaged=damaged
    )


@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_is_saved_is_the_state_of_its_step_though_training_goes_on(
    asynchronous: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import Progress, stored

    training = trained(seed=0, steps=1)
    saver = saver_of(str(tmp_path), [], async_=asynchronous)
    may_write = threading.Event()
    write = stored.save
    if asynchronous:
        monkeypatch.setattr(stored, "save", lambda *arguments: (may_write.wait(300), write(*arguments)))
    expected = {}
    for step in (2, 4):
        expected[step] = [tensor.clone() for tensor in tensors(*training)]
        may_write.clear()
        saver.save(*training, Progress(step, 8, 1.0), IDENTITY)
        assert bool(saver.complete()) == (not asynchronous)
        saver.wait_until_copied()
        for tensor in tensors(*training):
            tensor.add_(1)
        assert not (asynchronous and saver.complete()), "it was written before training went on"
        may_write.set()
        saver.wait()
        assert [saved.step for saved in saver.complete()] == ([step] if asynchronous else [])
    saver.close()
    for step, those in expected.items():
        loaded = trained(seed=1, steps=0)
        checkpoint.load(str(tmp_path), step, *loaded, IDENTITY)
        for one, other in zip(those, tensors(*loaded), strict=True):
            assert torch.equal(one, other)


def test_a_save_waits_for_the_one_before_it_and_says_how_long_training_stood_still(tmp_path: Path) -> None:
    from training import checkpoint
    from training.checkpoint import Progress

    training = trained(seed=0, steps=1)
    saver = saver_of(str(tmp_path), [], keep=1)
    assert [step for step in range(1, 7) if saver.due(step)] == [2, 4, 6]
    before = 0
    for step in (2, 4, 5):
        saver.save(*training, Progress(step, 8, 1.0), IDENTITY, last=step == 5)
        assert (checkpoint.newest(str(tmp_path)) or 0) >= before, "the one before it is complete"
        before = step
    saver.wait()
    saved = saver.complete()
    saver.close()
    assert [each.step for each in saved] == [2, 4, 5]
    assert [each.location for each in saved] == [checkpoint.step_location(str(tmp_path), step) for step in (2, 4, 5)]
    assert all(each.seconds > 0 and each.total_seconds > 0 for each in saved)
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000005"}, (
        "what is older is deleted when it is complete"
    )


@IN_S3_AT_NIGHT
def test_a_damaged_checkpoint_takes_no_place_among_those_that_are_kept(location: str) -> None:
    from training import checkpoint
    from training.checkpoint import COMMIT, Progress

    training = trained(seed=0, steps=1)
    for step in range(1, 7):
        save(location, training, Progress(step, 8, 1.0))
    change(location_files.join(checkpoint.step_location(location, 3), "__0_0.distcp"), lambda content: content[:-1])
    change(location_files.join(checkpoint.step_location(location, 5), COMMIT), flipped)
    # The content of step 6 was found damaged when the run resumed.
    saver = saver_of(location, [], every=1, keep=4, damaged=(6,))
    for step in (7, 8):
        saver.save(*training, Progress(step, 8, 1.0), IDENTITY)
    saver.wait()
    saver.close()
    steps = {int(name.partition("/")[0][5:]) for name in location_files.list_files(location)}
    assert steps == {2, 4, 7, 8}
    assert not saver.failed()


def test_the_last_failure_behind_the_training_is_told_at_once_and_raised_by_the_next_save(tmp_path: Path) -> None:
    from training.checkpoint import Progress

    training = trained(seed=0, steps=1)
    (tmp_path / "step-00000002").write_text("in the way")
    told: list[str] = []
    saver = saver_of(str(tmp_path), told, failures=1)
    saver.save(*training, Progress(2, 8, 1.0), IDENTITY)
    deadline = time.monotonic() + 300
    while not told:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert saver.complete() == []
    with pytest.raises(UserError, match=r"step-00000002: the checkpoint cannot be written: .*File exists"):
        saver.save(*training, Progress(3, 8, 1.0), IDENTITY, last=True)
    saver.close()


def test_memory_does_not_wait_for_storage_and_gets_nothing_of_the_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import torch.distributed as dist

    from training.checkpoint import NodeMemory, Progress, Saver, stored

    monkeypatch.setenv("TRAINWAY_MEMORY", str(tmp_path / "memory"))
    training = trained(seed=0, steps=1)
    group = dist.new_group(backend="gloo")
    memory = NodeMemory("x", IDENTITY, {}, group)
    settings = config.Checkpoint(every=3, memory_every=1, keep=9)
    saver = Saver(str(tmp_path / "storage"), settings, memory, torch.device("cpu"), group, lambda: None)
    may_write = threading.Event()
    write = stored.save
    monkeypatch.setattr(stored, "save", lambda *arguments: (may_write.wait(300), write(*arguments)))
    for step in range(1, 6):
        if step not in (4, 5):
            saver.wait()
        if step == 5:
            may_write.set()
        saver.save(*training, Progress(step, 8, 1.0), IDENTITY, last=step == 5)
    saver.wait()
    saver.close()
    places = {saved.step: bool(saved.location) for saved in saver.complete()}
    assert places == {1: False, 2: False, 3: True, 5: True}, "of step 4 there is nothing: storage was busy"
    assert memory.steps() == [3, 2]


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("optimizer", ["adamw", "adamw-8bit", "muon"])
def test_the_state_of_every_optimizer_goes_through_memory(
    optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import torch.distributed as dist

    from training import checkpoint
    from training.checkpoint import NodeMemory, Progress
    from training.checkpoint.copies import HostCopy

    if optimizer == "adamw-8bit":
        pytest.importorskip("torchao")
    monkeypatch.setenv("TRAINWAY_MEMORY", str(tmp_path))
    settings = config.Optimizer.model_validate({"name": optimizer})
    saved, loaded = trained(seed=0, steps=2, settings=settings), trained(seed=1, steps=0, settings=settings)
    memory = NodeMemory("job", IDENTITY, {"optimizer": optimizer}, dist.new_group(backend="gloo"))
    progress = Progress(2, 16, 1.5)
    memory.save(2, HostCopy(torch.device("cpu")).of(checkpoint.state_of(*saved, progress, IDENTITY)))
    assert checkpoint.resume(str(tmp_path / "none"), memory, *loaded, IDENTITY) == (progress, "memory", ())
    for one, other in zip(tensors(*saved), tensors(*loaded), strict=True):
        assert torch.equal(whole(one), whole(other))


def test_memory_that_is_damaged_before_there_is_storage_means_a_new_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch.distributed as dist

    from training import checkpoint
    from training.checkpoint import NodeMemory, Progress

    monkeypatch.setenv("TRAINWAY_MEMORY", str(tmp_path))
    model, optimizer = trained(seed=0, steps=1)
    memory = NodeMemory("job", IDENTITY, {}, dist.new_group(backend="gloo"))
    memory.save(1, checkpoint.state_of(model, optimizer, Progress(1, 8, 1.0), IDENTITY))
    (part,) = tmp_path.glob("*/*/step-00000001/rank-00000.*")
    part.write_bytes(flipped(part.read_bytes()))
    assert checkpoint.resume(str(tmp_path / "none"), memory, model, optimizer, IDENTITY) is None
    assert "step-00000001: what there is of rank 0 is damaged" in capsys.readouterr().err
    assert not optimizer.state
    assert not list(tmp_path.rglob("step-*"))


def test_memory_that_is_too_small_is_said_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    from training import checkpoint
    from training.checkpoint import NodeMemory, Progress

    monkeypatch.setenv("TRAINWAY_MEMORY", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 0, 100))
    state = checkpoint.state_of(*trained(seed=0, steps=1), Progress(1, 8, 1.0), IDENTITY)
    memory = NodeMemory("job", IDENTITY, {}, dist.new_group(backend="gloo"))
    with pytest.raises(UserError, match=r"memory take 0\.\d\d GiB of a node, and 0\.00 GiB are free"):
        memory.save(1, state)
    assert not list(tmp_path.rglob("rank-*"))


def whole(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor if type(tensor) is torch.Tensor else tensor.dequantize()
