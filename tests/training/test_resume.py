"""A run is exact: wherever it is interrupted, it ends with the same loss as the run that nobody touched."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import SMALL_VARIANT
from training.data.corpus import python_standard_library
from training.errors import StorageFailed
from training.prepare import prepare


def wait_for(run: Any, kind: str, step: int) -> None:
    deadline = time.monotonic() + 300
    while not any(event["step"] >= step for event in run.events(kind)):
        assert run.process.poll() is None, run.process.communicate()[0]
        assert time.monotonic() < deadline, f"no {kind} of step {step}"
        time.sleep(0.02)


def test_stopped_halfway_or_killed_and_resumed_gives_the_same_bits(
    launch: Any, job: dict[str, Any], untouched: str
) -> None:
    stopped = launch(job, 2, "--until-step", "6")
    stopped.finish()
    assert [event["step"] for event in stopped.events("end")] == [6]

    # From the checkpoint of step 6 on; killed in step 14. The one of step 8 was complete when that of step 12 began.
    faults = [{"samples": [104, 111], "rank": rank, "kind": "kill"} for rank in (0, 1)]
    killed = launch(job, 2, module="tests.training.faulty_train", FAULTS=json.dumps(faults))
    killed.process.communicate()
    assert killed.process.returncode != 0
    assert len(killed.events("end")) == 1, "it was not interrupted"

    resumed = launch(job, 2)
    resumed.finish()
    assert [event["resumed_from"] for event in resumed.events("start")][:2] == [None, 6]
    assert resumed.events("start")[2]["resumed_from"] >= 8
    assert resumed.events("end")[-1]["loss_hex"] == untouched
    assert {event["step"] for event in resumed.events("step")} == set(range(1, job["steps"] + 1))

    again = launch(job, 2)
    again.finish()
    assert again.events("end")[-1]["loss_hex"] == untouched, "a finished job has nothing left to do"
    assert len(again.events("step")) == len(resumed.events("step"))


@pytest.mark.exhaustive
def test_the_stages_of_a_pipeline_resume_to_the_same_bits_and_other_layouts_continue_them(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    """Each stage has other parameters, and so other groups of its optimizer."""

    def pipeline(name: str) -> dict[str, Any]:
        saves = job["checkpoint"] | {"location": str(tmp_path / name)}
        variant = SMALL_VARIANT | {"tied": False}
        return job | {"variant": variant, "parallel": {"pp": 2}, "steps": 9, "checkpoint": saves}

    untouched = launch(pipeline("untouched"), 2, name="untouched")
    untouched.finish()
    launch(pipeline("checkpoints"), 2, "--until-step", "3").finish()
    resumed = launch(pipeline("checkpoints"), 2, "--until-step", "6")
    resumed.finish()
    ends = {event["step"]: event["loss_hex"] for event in resumed.events("end")}
    losses = {event["step"]: event["loss"] for event in untouched.events("step")}
    assert float.fromhex(ends[6]) == losses[6]
    flat = launch(pipeline("checkpoints") | {"parallel": {}}, 2)
    flat.finish()
    assert flat.events("start")[-1]["resumed_from"] == 6
    (end,) = untouched.events("end")
    assert flat.events("end")[-1]["loss"] == pytest.approx(end["loss"], rel=1e-6)


@pytest.mark.exhaustive
def test_data_and_checkpoints_in_s3_give_the_same_bits_as_on_disk(
    launch: Any, job: dict[str, Any], untouched: str, s3: str, tmp_path: Path
) -> None:
    prepare(python_standard_library(limit_bytes=300_000), f"{s3}/corpus", vocabulary=384, shard_bytes=75_000)
    in_s3 = job | {
        "data": job["data"] | {"train": "fsx:/corpus"},
        "checkpoint": {"every": 4, "keep": 2},
    }
    locations = json.dumps({"fsx": s3, "s3": s3})
    launch(in_s3, 2, "--until-step", "6", TRAINWAY_LOCATIONS=locations).finish()
    run = launch(in_s3, 2, TRAINWAY_LOCATIONS=locations)
    run.finish()

    assert run.events("start")[-1]["resumed_from"] == 6
    assert run.events("end")[-1]["loss_hex"] == untouched
    assert run.events("checkpoint")[-1]["location"] == f"{s3}/checkpoints/exact/step-{job['steps']:08d}"
    cached = list((tmp_path / "cache/trainway/shards").glob("*.bin"))
    assert len(cached) > 1, "shards are kept on this host"


def test_a_signal_to_one_rank_stops_all_after_a_checkpoint(launch: Any, job: dict[str, Any]) -> None:
    run = launch(job | {"steps": 1000, "checkpoint": job["checkpoint"] | {"every": 1000}}, 2)
    wait_for(run, "step", 2)
    os.kill(run.workers()[-1], signal.SIGTERM)
    run.finish()
    (end,) = run.events("end")
    assert 2 <= end["step"] < 1000
    assert [event["step"] for event in run.events("checkpoint")] == [end["step"]]


# tests/launch/test_run.py stops torchrun through the launcher.
@pytest.mark.exhaustive
def test_a_signal_to_torchrun_leaves_a_checkpoint(launch_program: Any, job: dict[str, Any]) -> None:
    run = launch_program(job | {"steps": 1000, "checkpoint": job["checkpoint"] | {"every": 1000}}, 2)
    wait_for(run, "step", 2)
    run.process.send_signal(signal.SIGTERM)
    run.process.communicate(timeout=60)
    (end,) = run.events("end")
    assert [event["step"] for event in run.events("checkpoint")] == [end["step"]]


@pytest.mark.exhaustive
def test_what_one_rank_cannot_read_all_ranks_skip(
    launch: Any, job: dict[str, Any], untouched: str, tmp_path: Path
) -> None:
    launch(job, 2, "--until-step", "6").finish()
    part = tmp_path / "checkpoints/step-00000006/__1_0.distcp"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)

    run = launch(job, 2)
    output = run.finish()
    assert output.count("warning: a checkpoint is skipped: ") == 1
    assert f"{part}: the checksum of its content is" in output
    assert run.events("start")[-1]["resumed_from"] == 4
    assert run.events("end")[-1]["loss_hex"] == untouched


@pytest.mark.exhaustive
def test_a_checkpoint_that_cannot_be_written_ends_all_ranks_with_one_message(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/step-00000004").write_text("in the way")
    # torchrun looks seldom, so that it sees both ranks' own ends and does not end one for the other's sake.
    document = job | {"steps": 1000, "checkpoint": job["checkpoint"] | {"keep": 1, "failures": 1}}
    run = launch(document, 2, PET_MONITOR_INTERVAL="5")
    output, _ = run.process.communicate(timeout=1800)
    assert run.process.returncode != 0
    reason = "checkpoints/step-00000004: the checkpoint cannot be written: "
    assert output.count(f"job-0.yaml: {tmp_path}/{reason}") + output.count(f"run-0.yaml: {tmp_path}/{reason}") == 1
    assert output.count(f"exitcode  : {StorageFailed.status}") == 2, "both ranks have ended by themselves"
    assert not run.events("checkpoint")
    assert not run.events("end")
