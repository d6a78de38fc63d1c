"""Checkpoints on the local disk of a node: one that is full, absent, or broken costs a warning, not the run."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.checkpoints import IDENTITY, flipped, tensors, trained, whole
from training import config

if TYPE_CHECKING:
    import torch

    from training.checkpoint import NodeMemory, Saver
    from training.model.decoder import Decoder

pytestmark = pytest.mark.usefixtures("one_rank")

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The disk of a node, with room for every checkpoint of these tests."""
    path = tmp_path / "disk"
    path.mkdir()
    monkeypatch.setenv("TRAINWAY_LOCAL_DISK", str(path))
    free_on(monkeypatch, 10**9)
    return path


def free_on(monkeypatch: pytest.MonkeyPatch, free: int, total: int = 10**9) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(total, total - free, free))


@pytest.fixture
def on_disk() -> Callable[..., NodeMemory]:
    """Return a function that returns the parts of a job on the disk, as a new start of the job sees them."""

    def of(run: str = "run", location: str = "job") -> NodeMemory:
        import torch.distributed as dist

        from training.checkpoint import NodeMemory

        return NodeMemory(location, IDENTITY, {"run": run}, dist.new_group(backend="gloo"), on_disk=True)

    return of


def keep(memory: NodeMemory, step: int, training: tuple[Decoder, torch.optim.Optimizer]) -> None:
    from training import checkpoint

    memory.save(step, checkpoint.state_of(*training, checkpoint.Progress(step, 8, 1.0), IDENTITY))


def parts(disk: Path) -> list[str]:
    """Return the files on a disk, each as the directory of its step and its name without the checksum."""
    return sorted(f"{path.parent.name}/{path.stem}" for path in disk.rglob("*") if path.is_file())


def test_a_new_start_reads_the_newest_step_from_the_disk_bit_for_bit(
    disk: Path, on_disk: Callable[..., NodeMemory], tmp_path: Path
) -> None:
    import torch

    from training import checkpoint

    saved, loaded = trained(seed=0, steps=2), trained(seed=1, steps=0)
    memory = on_disk()
    for step in (2, 4, 6):
        keep(memory, step, saved)
    assert parts(disk) == ["step-00000004/rank-00000", "step-00000006/rank-00000"]
    assert {path.stat().st_mode & 0o077 for path in disk.glob("trainway-*")} == {0}
    resumed = checkpoint.resume(str(tmp_path / "none"), on_disk(), *loaded, IDENTITY)
    assert resumed and (resumed.progress.step, resumed.source) == (6, "disk")
    for one, other in zip(tensors(*saved), tensors(*loaded), strict=True):
        assert torch.equal(whole(one), whole(other))


def test_another_run_at_the_same_location_reads_nothing_and_deletes_it(
    disk: Path, on_disk: Callable[..., NodeMemory], tmp_path: Path
) -> None:
    from training import checkpoint

    training = trained(seed=0, steps=1)
    keep(on_disk(), 2, training)
    keep(on_disk(location="another"), 3, training)
    assert checkpoint.resume(str(tmp_path / "none"), on_disk(run="later"), *training, IDENTITY) is None
    assert parts(disk) == ["step-00000003/rank-00000"], "only those of the other location are left"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def interrupt(path: Path) -> None:
    path.rename(path.with_suffix(".unfinished"))


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        interrupt,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(flipped(path.read_bytes())),
    ],
    ids=["truncated", "unfinished", "empty", "flipped"],
)
def test_a_torn_file_is_skipped_for_the_step_before_it(
    damage: Callable[[Path], None], disk: Path, on_disk: Callable[..., NodeMemory], tmp_path: Path
) -> None:
    from training import checkpoint

    training, memory = trained(seed=0, steps=1), on_disk()
    for step in (2, 4):
        keep(memory, step, training)
    (newest,) = disk.rglob("step-00000004/rank-*")
    damage(newest)
    resumed = checkpoint.resume(str(tmp_path / "none"), on_disk(), *training, IDENTITY)
    assert resumed and resumed.progress.step == 2
    assert parts(disk) == ["step-00000002/rank-00000"]


def test_a_file_that_the_disk_cannot_read_is_damaged_and_ends_no_process(
    disk: Path, on_disk: Callable[..., NodeMemory], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from training import checkpoint

    training, memory = trained(seed=0, steps=1), on_disk()
    for step in (2, 4):
        keep(memory, step, training)
    opened = Path.open

    def broken(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.parent.name == "step-00000004" and disk in path.parents:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", broken)
    resumed = checkpoint.resume(str(tmp_path / "none"), on_disk(), *training, IDENTITY)
    assert resumed and resumed.progress.step == 2


@pytest.fixture
def saver(on_disk: Callable[..., NodeMemory], tmp_path: Path) -> Iterator[Saver]:
    """A saver that keeps every step on the disk, and every third one in storage."""
    import torch
    import torch.distributed as dist

    from training.checkpoint import Destination, Saver

    settings = config.Checkpoint(every=3, memory_every=1, local_disk=True, failures=1)
    group = dist.new_group(backend="gloo")
    destination = Destination(str(tmp_path / "storage"), on_disk(), group)
    saver = Saver(destination, settings, torch.device("cpu"), lambda: None)
    yield saver
    saver.close()


def save_steps(saver: Saver, *steps: int) -> dict[int, bool]:
    """Save steps. Return those that are complete, each with whether it is in storage."""
    from training.checkpoint import Progress

    training = trained(seed=0, steps=1)
    for step in steps:
        saver.save(*training, Progress(step, 8, 1.0), IDENTITY)
        saver.wait()
    return {saved.step: bool(saved.location) for saved in saver.complete()}


def test_a_full_disk_is_told_once_and_costs_neither_the_run_nor_its_checkpoints_in_storage(
    disk: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fifth of the disk stays free.
    free_on(monkeypatch, free=2 * 10**8 + 1000)
    assert save_steps(saver, 1, 2, 3) == {3: True}
    (told,) = saver.failed()
    assert (told.step, told.failures) == (1, 0)
    assert "GiB are free, of which 0.19 GiB stay free. Delete files on the disk" in told.reason
    assert parts(disk) == []
    free_on(monkeypatch, free=10**9)
    assert save_steps(saver, 4, 5) == {4: False, 5: False}
    free_on(monkeypatch, free=2 * 10**8 + 1000)
    assert save_steps(saver, 7) == {}
    assert [each.step for each in saver.failed()] == [7]
    assert parts(disk) == ["step-00000005/rank-00000"], "the newest step stays while there is no room for another"


def test_a_disk_that_fills_up_during_a_write_keeps_the_step_before_it(
    disk: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    write = torch.save

    def full(state: Any, path: Path) -> None:
        write(state, path)
        raise NO_SPACE

    assert save_steps(saver, 1, 2) == {1: False, 2: False}
    monkeypatch.setattr(torch, "save", full)
    assert save_steps(saver, 4) == {}
    (told,) = saver.failed()
    assert (
        "step-00000004/rank-00000.unfinished: it cannot be written: [Errno 28] No space left on device" in told.reason
    )
    assert parts(disk) == ["step-00000002/rank-00000"]


def test_a_node_without_a_disk_is_told_once_and_the_run_continues(disk: Path, saver: Saver) -> None:
    disk.rmdir()
    assert save_steps(saver, 1, 2, 3) == {3: True}
    (told,) = saver.failed()
    assert f"Look at {disk}" in told.reason
    assert not disk.exists()


def test_files_that_another_user_planted_are_neither_read_nor_deleted(
    disk: Path, on_disk: Callable[..., NodeMemory], saver: Saver, tmp_path: Path
) -> None:
    from training import checkpoint

    training = trained(seed=0, steps=1)
    keep(on_disk(), 2, training)
    (own,) = disk.glob("trainway-*")
    planted = own.rename(tmp_path / "planted")
    own.symlink_to(planted)
    assert checkpoint.resume(str(tmp_path / "none"), on_disk(run="later"), *training, IDENTITY) is None
    assert checkpoint.resume(str(tmp_path / "none"), on_disk(), *training, IDENTITY) is None
    assert save_steps(saver, 1) == {}
    on_disk().remove()
    assert "closed to all others" in saver.failed()[0].reason
    assert parts(planted) == ["step-00000002/rank-00000"]


@pytest.mark.usefixtures("disk")
def test_copies_on_the_nodes_do_not_hide_that_storage_fails(on_disk: Callable[..., NodeMemory], tmp_path: Path) -> None:
    import torch
    import torch.distributed as dist

    from training.checkpoint import Destination, Saver
    from training.errors import UserError

    settings = config.Checkpoint(every=2, memory_every=1, local_disk=True, failures=2)
    group = dist.new_group(backend="gloo")
    (tmp_path / "storage").write_text("in the way")
    destination = Destination(str(tmp_path / "storage"), on_disk(), group)
    saver = Saver(destination, settings, torch.device("cpu"), lambda: None)
    with pytest.raises(UserError, match="storage"):
        save_steps(saver, 1, 2, 3, 4)
    assert [failed.failures for failed in saver.failed()] == [1, 2]
    saver.close()
