"""A save that fails costs a run one checkpoint, and the run ends only when its newest one is too old.

Storage fails for real: a file system that is full or read-only, and a proxy before an S3 server that throttles, hangs,
or closes connections.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.checkpoints import IDENTITY, save, saver_of, trained
from tests.training.faulty_s3 import Faults, Kind, faulty_proxy
from tests.training.test_resume import wait_for
from training.config.presets import PRESETS
from training.errors import StorageDenied, StorageFailed, StorageFull
from training.hosts import location_files


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB, on which one checkpoint of the tests' job fits."""
    if os.geteuid() != 0:
        if "CI" in os.environ:
            pytest.fail("mounting a file system needs root")
        pytest.skip("mounting a file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "small", disk], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture
def faults(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """Faults of a proxy, through which this process and its children reach S3. Requests are sent twice at most."""
    assert s3 == "s3://data"
    with faulty_proxy(os.environ["AWS_ENDPOINT_URL"]) as (endpoint, found):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
        location_files.s3_client.cache_clear()
        yield found


@pytest.mark.usefixtures("one_rank")
def test_a_full_disk_is_named_with_the_bytes_that_are_needed_and_free(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training import checkpoint
    from training.checkpoint import Progress, plans

    state = trained(seed=0, steps=1, shape=PRESETS["tiny"])
    location = str(small_disk / "checkpoints")
    save(location, state, Progress(1, 8, 2.0))
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    needed = sum(tensor.numel() * 4 for tensor in state[0].parameters()) * 3
    message = rf"no space left on {small_disk}/checkpoints: the checkpoint needs [\d,]+ bytes, and {free:,} bytes are"
    with pytest.raises(StorageFull, match=message) as raised:
        save(location, state, Progress(2, 16, 2.0))
    stated = int(str(raised.value).split("needs ")[1].split(" bytes")[0].replace(",", ""))
    assert needed <= stated <= needed + 1000, "the weights, two moments, and a count for each parameter"
    assert {path.name for path in Path(location).iterdir()} == {"step-00000001"}

    # Another program fills the disk after the comparison.
    monkeypatch.setattr(plans, "check_space", lambda *_: None)
    with pytest.raises(StorageFull, match=rf"no space left on {small_disk}.* needs {stated:,} bytes, and"):
        save(location, state, Progress(2, 16, 2.0))
    assert {path.name for path in Path(location).iterdir()} == {"step-00000001"}, "the half of a checkpoint is deleted"

    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StorageDenied, match=r"step-00000002: the checkpoint cannot be written: .*Let the role or"):
        save(location, state, Progress(2, 16, 2.0))
    assert checkpoint.newest(location) == 1


def in_the_way(location: Path, *steps: int) -> None:
    """Put files where the checkpoints of some steps would have their directories."""
    location.mkdir(exist_ok=True)
    for step in steps:
        (location / f"step-{step:08d}").write_text("in the way")


def saves(location: Path, steps: range, **settings: Any) -> tuple[list[tuple[int, int]], list[int], str | None]:
    """Save some steps. Returns the failed steps with their count, the complete steps, and the error at the end."""
    from training.checkpoint import Progress

    training, told = trained(seed=0, steps=1), list[str]()
    found = saver_of(str(location), told, every=1, keep=9, **settings)
    error = None
    try:
        for step in steps:
            found.save(*training, Progress(step, 8, 1.0), IDENTITY, last=step == steps[-1])
        found.wait()
    except StorageFailed as raised:
        error = str(raised)
    found.close()
    assert bool(told) == (error is not None and settings.get("async", True))
    return [(each.step, each.failures) for each in found.failed()], [each.step for each in found.complete()], error


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_failed_save_is_followed_by_the_next_until_too_many_fail(asynchronous: bool, tmp_path: Path) -> None:
    location = tmp_path / "checkpoints"
    in_the_way(location, 2, 3, 5, 7, 8, 9)
    failed, complete, error = saves(location, range(1, 20), failures=3, **{"async": asynchronous})
    assert failed == [(2, 1), (3, 2), (5, 1), (7, 1), (8, 2), (9, 3)]
    assert complete == [1, 4, 6]
    assert error is not None
    assert "step-00000009: the checkpoint cannot be written" in error


@pytest.mark.usefixtures("one_rank")
def test_one_failure_ends_a_run_whose_newest_checkpoint_is_too_old(tmp_path: Path) -> None:
    location = tmp_path / "checkpoints"
    in_the_way(location, 2)
    failed, complete, error = saves(location, range(1, 4), failures=3, failure_minutes=1e-9)
    assert (failed, complete) == ([(2, 1)], [1])
    assert error is not None


@pytest.mark.usefixtures("one_rank")
def test_the_last_save_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.checkpoint import saver

    location = tmp_path / "checkpoints"
    in_the_way(location, 2)
    waits: list[float] = []

    def clear(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            (location / "step-00000002").unlink()

    monkeypatch.setattr(time, "sleep", clear)
    assert saves(location, range(1, 3), failures=3) == ([(2, 1), (2, 2)], [1, 2], None)
    assert waits == [saver.SECONDS_BEFORE_RETRY, 2 * saver.SECONDS_BEFORE_RETRY]


def in_s3(job: dict[str, Any], **checkpoints: Any) -> dict[str, Any]:
    return job | {"checkpoint": {"every": 4, "keep": 2, "location": "s3://data/checkpoints/exact", **checkpoints}}


@pytest.mark.exhaustive
def test_a_run_ends_with_the_same_bits_though_s3_throttles_and_drops(
    launch: Any, job: dict[str, Any], untouched: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_MAX_ATTEMPTS")
    failed = []
    faults.kind, faults.percent = "throttle", 20
    run = launch(in_s3(job), 2)
    planned: tuple[tuple[int, Kind, int], ...] = ((4, "throttle", 50), (8, "drop", 50))
    for step, kind, percent in planned:
        wait_for(run, "checkpoint", step)
        failed.append(faults.failed)
        faults.kind, faults.percent = kind, percent
    run.finish()
    assert 0 < failed[0] < failed[1] < faults.failed
    assert [event["step"] for event in run.events("checkpoint")] == [4, 8, 12, 16]
    assert run.events("end")[-1]["loss_hex"] == untouched
    assert not run.events("checkpoint_failed")


@pytest.mark.exhaustive
def test_a_run_survives_an_outage_of_s3_and_ends_with_its_status_after_a_longer_one(
    launch: Any, job: dict[str, Any], faults: Faults
) -> None:
    # torchrun looks seldom, so that it sees both ranks' own ends and does not end one for the other's sake.
    run = launch(in_s3(job, failures=2) | {"steps": 100_000}, 2, PET_MONITOR_INTERVAL="5")
    wait_for(run, "step", 1)  # the run has its lease, which is in S3, too
    faults.kind = "throttle"
    wait_for(run, "checkpoint_failed", 4)
    faults.kind = "none"
    wait_for(run, "checkpoint", run.events("checkpoint_failed")[-1]["step"] + 4)
    faults.kind = "drop"
    output, _ = run.process.communicate(timeout=1800)
    told = run.events("checkpoint_failed")
    assert [event["failures"] for event in told] == [1, 1, 2], output
    assert all(event["limit"] == 2 for event in told)
    assert output.count("(failure 1 of 2 in a row)") == 2
    assert output.count(f"exitcode  : {StorageFailed.status}") == 2, output
    assert "the checkpoint cannot be written" in told[0]["reason"]
    steps = [event["step"] for event in told + run.events("checkpoint")]
    assert sorted(steps) == list(range(4, max(steps) + 1, 4)), "each save is complete, or is told"


# The S3 connector closes a connection on which too little arrives, after half a minute, and tries three times more.
@pytest.mark.exhaustive
@pytest.mark.usefixtures("one_rank")
def test_a_save_fails_though_s3_never_answers(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.checkpoint import Progress

    monkeypatch.setattr(location_files, "ATTEMPTS", 1)
    faults.kind = "hang"
    with pytest.raises(StorageFailed, match=r"the checkpoint cannot be written: .*throughput"):
        save("s3://data/checkpoints/exact", trained(seed=0, steps=1), Progress(1, 8, 2.0))
