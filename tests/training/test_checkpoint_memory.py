"""Checkpoints in the memory of nodes: they do not wait for storage, and damaged ones are not loaded."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.training.checkpoints import IDENTITY, flipped, tensors, trained, whole
from training import config

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("one_rank")


def test_memory_does_not_wait_for_storage_and_gets_nothing_of_the_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import torch.distributed as dist

    from training.checkpoint import Destination, NodeMemory, Progress, Saver, stored

    monkeypatch.setenv("TRAINWAY_MEMORY", str(tmp_path / "memory"))
    training = trained(seed=0, steps=1)
    group = dist.new_group(backend="gloo")
    memory = NodeMemory("x", IDENTITY, {}, group)
    settings = config.Checkpoint(every=3, memory_every=1, keep=9)
    destination = Destination(str(tmp_path / "storage"), memory, group)
    saver = Saver(destination, settings, torch.device("cpu"), lambda: None)
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
    (part,) = tmp_path.glob("*/*/*/step-00000001/rank-00000.*")
    part.write_bytes(flipped(part.read_bytes()))
    assert checkpoint.resume(str(tmp_path / "none"), memory, model, optimizer, IDENTITY) is None
    assert "step-00000001: what there is of rank 0 is damaged" in capsys.readouterr().err
    assert not optimizer.state
    assert not list(tmp_path.rglob("step-*"))


def test_memory_that_is_too_small_is_said_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    from training import checkpoint
    from training.checkpoint import NodeMemory, Progress
    from training.checkpoint.memory import NotKept

    monkeypatch.setenv("TRAINWAY_MEMORY", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 0, 100))
    state = checkpoint.state_of(*trained(seed=0, steps=1), Progress(1, 8, 1.0), IDENTITY)
    memory = NodeMemory("job", IDENTITY, {}, dist.new_group(backend="gloo"))
    with pytest.raises(NotKept, match=r"checkpoints take 0\.\d\d GiB of a node, and 0\.00 GiB are free"):
        memory.save(1, state)
    assert not list(tmp_path.rglob("rank-*"))
