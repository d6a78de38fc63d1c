"""The saver copies the state of a step, and writes it while the training continues."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.training.checkpoints import IDENTITY, IN_S3_AT_NIGHT, change, flipped, save, saver_of, tensors, trained
from training.errors import UserError
from training.hosts import location_files

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("one_rank")


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


def interrupt(_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupted", [False, True])
def test_after_an_error_a_save_is_waited_for_as_long_as_a_step_waits(
    interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.checkpoint import Progress, stored
    from training.checkpoint.saver import is_saving

    training, saver, may_write = trained(seed=0, steps=1), saver_of(str(tmp_path), []), threading.Event()
    write = stored.save
    monkeypatch.setattr(stored, "save", lambda *arguments: (may_write.wait(300), write(*arguments)))
    monkeypatch.setattr(saver, "_patience", 0.2)
    try:
        saver.save(*training, Progress(2, 8, 1.0), IDENTITY)
        if interrupted:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(Future, "result", interrupt)
                saver.wait()
        saver.leave(RuntimeError)
        assert is_saving(), "the process has to end without it"
    finally:
        may_write.set()
    saver.close()
    assert not is_saving()
