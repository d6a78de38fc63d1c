"""Storage fails at random moments. The run ends with the same loss as without the fault."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.moments import wait_for_event, wait_for_moment
from tests.faults.test_processes import RESTARTS, assert_exact, kill
from tests.training.conftest import Launch
from tests.training.faulty_s3 import Faults, faulty_proxy
from tests.training.test_failed_saves import in_s3

DISK_BYTES = 64 * 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system for the checkpoints of the tests' job."""
    # Only root can mount. CI runs as root, and the mount below fails there if it does not.
    if os.geteuid() and "CI" not in os.environ:
        pytest.skip("mounting a file system needs root")
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "disk", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@pytest.fixture
def faults(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """Faults of a proxy, through which the ranks reach S3."""
    assert s3 == "s3://data"
    with faulty_proxy(os.environ["AWS_ENDPOINT_URL"]) as (endpoint, found):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield found


@pytest.mark.exhaustive
def test_a_disk_that_is_full_for_a_while(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, disk: Path
) -> None:
    run = launch(job | {"checkpoint": {"every": 2, "keep": 1, "location": str(disk / "checkpoints")}}, 2)
    wait_for_moment(run, drawn, 1, 9)
    with (disk / "other").open("wb", buffering=0) as other:
        # A save that was nearly complete deletes an old checkpoint, and with it frees space.
        while not run.events("checkpoint_failed"):
            assert run.process.poll() is None
            with contextlib.suppress(OSError):
                other.write(bytes(2**20))
    (disk / "other").unlink()
    output = run.finish()
    assert f"no space left on {disk}/checkpoints" in output
    assert_exact(run, untouched, starts=1)
    assert [path.name for path in (disk / "checkpoints").glob("step-*")] == ["step-00000016"]


@pytest.mark.exhaustive
def test_s3_that_answers_with_wrong_bytes(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, faults: Faults
) -> None:
    """A run that is killed reads its newest checkpoint with wrong bytes, and resumes from the one before it."""
    run = launch(in_s3(job), 2, **RESTARTS)
    wait_for_event(run, "checkpoint", 8)
    # While the ranks are stopped, none of them saves a newer one.
    for rank in run.workers():
        os.kill(rank, signal.SIGSTOP)
    newest = run.events("checkpoint")[-1]["step"]
    faults.kind, faults.prefix = "wrong", f"/data/checkpoints/exact/step-{newest:08d}/__"
    kill(run, drawn)
    for rank in run.workers():
        # The killed rank may have exited already.
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGCONT)
    output = run.finish()
    assert faults.failed
    assert "the checksum of its content is" in output
    assert_exact(run, untouched, starts=2)
    assert run.events("start")[-1]["resumed_from"] == newest - 4


# The S3 connector closes a connection on which nothing arrives for half a minute.
@pytest.mark.exhaustive
def test_s3_that_hangs_for_a_while(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, faults: Faults
) -> None:
    run = launch(in_s3(job), 2)
    wait_for_moment(run, drawn, 1, 9)
    faults.kind = "hang"
    end = time.monotonic() + 300
    while not faults.failed:
        assert time.monotonic() < end and run.process.poll() is None
        time.sleep(0.01)
    faults.kind = "none"
    run.finish()
    assert_exact(run, untouched, starts=1)


# S3 asks for fewer requests with SlowDown, whose status is 503:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/ErrorBestPractices.html (read 2026-11-29)
@pytest.mark.exhaustive
@pytest.mark.parametrize(("percent", "requests"), [(20, 3), (50, 12), (100, 15)])
def test_s3_that_throttles_for_a_while(
    launch: Launch,
    job: dict[str, Any],
    untouched: str,
    drawn: random.Random,
    faults: Faults,
    percent: int,
    requests: int,
) -> None:
    """S3 refuses a part of the requests, or all, until it has refused a number of them. No save fails."""
    run = launch(in_s3(job), 2)
    wait_for_moment(run, drawn, 1, 3)
    faults.percent, faults.most, faults.kind = percent, requests, "throttle"
    run.finish()
    assert faults.failed == requests
    assert_exact(run, untouched, starts=1)
    assert not run.events("checkpoint_failed")
    assert [event["step"] for event in run.events("checkpoint")] == [4, 8, 12, 16]
