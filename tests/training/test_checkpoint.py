"""A checkpoint is complete or it is not there, on disk and in S3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.checkpoints import IDENTITY, IN_S3_AT_NIGHT, change, flipped, save, tensors, trained
from training.errors import UserError
from training.hosts import location_files

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("one_rank")


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
def test_a_checkpoint_of_another_job_is_refused_with_the_difference(location: str) -> None:
    from training import checkpoint
    from training.checkpoint import Progress

    state = trained(seed=0, steps=1)
    save(location, state, Progress(1, 8, 2.0))
    with pytest.raises(UserError, match=r"step-00000001 does not fit the job file: seed was 0 in the run, and is 7\. "):
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
