"""A start that finds less than its run had ends before its first step, and says what is gone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.checkpoints import IDENTITY, save, trained
from training.errors import StorageFailed, UserError
from training.hosts.run_record import FROM_SCRATCH, METRICS_FILE, read_record


def written(run: Path, *events: dict[str, Any]) -> Path:
    """Append events to the record of a run."""
    run.mkdir(exist_ok=True)
    with (run / METRICS_FILE).open("a") as file:
        file.writelines(f"{json.dumps({'event': each.pop('event'), 'time': 1.0, **each})}\n" for each in events)
    return run


def saved(step: int, location: str = "/there") -> dict[str, Any]:
    return {"event": "checkpoint", "step": step, "location": f"{location}/step-{step:08d}"}


def scratched(launch: str) -> dict[str, Any]:
    return {"event": "from_scratch", "launch": launch}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, tuple[int, ...]], str]:
    """Return a function that puts checkpoints of some steps into a location."""
    whole = tmp_path_factory.mktemp("whole")
    state: list[Any] = []

    def put(location: Path, steps: tuple[int, ...]) -> str:
        from training.checkpoint import Progress

        state[:] = state or [trained(seed=0, steps=1)]
        for step in steps:
            if not (whole / f"step-{step:08d}").exists():
                save(str(whole), state[0], Progress(step, 8 * step, 2.0))
            shutil.copytree(whole / f"step-{step:08d}", location / f"step-{step:08d}")
        location.mkdir(exist_ok=True)
        return str(location)

    return put


def resumed(location: str, run: Path, keep: int = 2) -> int | None:
    """The step that a run resumes from."""
    from training import checkpoint

    found = checkpoint.resume(location, None, *trained(seed=1, steps=0), IDENTITY, run, keep)
    return None if found is None else found.progress.step


# What the run had, what is there, and the step from which it resumes, or what is said.
GONE = "the checkpoint of step {} is gone"
STARTS: dict[str, tuple[list[dict[str, Any]], tuple[int, ...], int | str | None]] = {
    "a first launch": ([], (), None),
    "a first launch beside the checkpoints of another run": ([], (1, 3), 3),
    "stopped before its first checkpoint": ([{"event": "start"}, {"event": "step", "step": 1}], (), None),
    "all are there": ([saved(1), saved(2), saved(3)], (2, 3), 3),
    "all are gone": ([saved(1), saved(2), saved(3)], (), GONE.format(3)),
    "the newest is gone, and another that it keeps is there": ([saved(1), saved(2), saved(3)], (1, 2), 2),
    "all that it keeps are gone": ([saved(1), saved(2), saved(3)], (1,), GONE.format(3)),
    "another run has written newer ones here": ([saved(1), saved(2)], (4,), 4),
    "another run has begun anew here": ([saved(3), saved(4)], (1,), GONE.format(4)),
    "it resumed from those of another run": (
        [{"event": "resumed", "step": 3, "source": "/there/step-00000003"}],
        (),
        GONE.format(3),
    ),
    "it went back behind a damaged one": (
        [saved(1), saved(2), saved(3), {"event": "resumed", "step": 1, "source": "/there/step-00000001"}],
        (1,),
        1,
    ),
    "it was in memory, and storage has an older one": (
        [saved(2), {"event": "memory_checkpoint", "step": 3}, {"event": "resumed", "step": 3, "source": "memory"}],
        (2,),
        2,
    ),
    "it went back by itself": ([saved(1), saved(2), saved(3), {"event": "rewound", "step": 9, "to_step": 1}], (1,), 1),
    "it began anew": ([saved(3), scratched("before"), saved(1)], (1,), 1),
    "it began anew, and lost that": ([saved(3), scratched("before"), saved(1)], (), GONE.format(1)),
}


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("case", STARTS)
def test_a_start_resumes_from_what_its_run_had_or_refuses(
    case: str, tmp_path: Path, checkpoints: Callable[[Path, tuple[int, ...]], str]
) -> None:
    events, there, expected = STARTS[case]
    location = checkpoints(tmp_path / "here", there)
    run = written(tmp_path / "run", *(dict(each) for each in events))
    if not isinstance(expected, str):
        assert resumed(location, run) == expected
        return
    with pytest.raises(UserError) as refused:
        resumed(location, run)
    step = max(read_record(run).checkpoints)
    has = f"the checkpoint of step {there[0]}" if there else "no complete checkpoint"
    assert str(refused.value).startswith(f"/there/step-{step:08d}: {expected}. ")
    assert f"{run}/metrics.jsonl says, and {location} has {has}. Mount or restore it, " in str(refused.value)
    for newest in there:
        assert str(refused.value).endswith(f". A new run at this location resumes from step {newest}")
    assert str(refused.value).endswith("use `trainway resume run --from-scratch`") is not bool(there)


@pytest.mark.usefixtures("one_rank")
def test_only_a_checkpoint_that_vanished_is_warned_of(
    tmp_path: Path, checkpoints: Callable[[Path, tuple[int, ...]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = written(tmp_path / "run", saved(2), saved(3))
    location = checkpoints(tmp_path / "here", (2, 3))
    (tmp_path / "here/step-00000003/.metadata").unlink()
    assert resumed(location, run, keep=1) == 2, "the newest is incomplete, as after a save that ended too early"
    assert "is gone" not in capsys.readouterr().err
    shutil.rmtree(tmp_path / "here/step-00000003")
    assert resumed(location, run) == 2
    warning = "/there/step-00000003 is gone: the run resumes from step 2, and not from step 3"
    assert capsys.readouterr().err == f"warning: {warning}\n"
    with pytest.raises(UserError, match=GONE.format(3)):
        resumed(location, run, keep=1)
    (tmp_path / "here/step-00000002/.metadata").unlink()
    with pytest.raises(UserError, match="has no complete checkpoint"):
        resumed(location, run)


@pytest.mark.usefixtures("one_rank")
def test_checkpoints_that_expired_in_s3_are_gone(s3: str, tmp_path: Path) -> None:
    from training.checkpoint import Progress
    from training.hosts import location_files

    location, run = f"{s3}/checkpoints/x", written(tmp_path / "run", saved(2, f"{s3}/checkpoints/x"))
    save(location, trained(seed=0, steps=1), Progress(2, 16, 2.0))
    assert resumed(location, run) == 2
    location_files.delete(location, location_files.list_files(location))
    with pytest.raises(UserError, match=r"^s3://data/checkpoints/x/step-00000002: the checkpoint of step 2 is gone"):
        resumed(location, run)


@pytest.mark.usefixtures("one_rank")
def test_a_launch_may_begin_anew_once_and_only_where_nothing_is(
    tmp_path: Path, checkpoints: Callable[[Path, tuple[int, ...]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path / "run", saved(2), saved(3))
    monkeypatch.setenv(FROM_SCRATCH, "second launch")
    assert resumed(checkpoints(tmp_path / "empty", ()), run) is None
    with pytest.raises(UserError, match=r"restart would resume from the checkpoints of the steps 2, 3\. Move"):
        resumed(checkpoints(tmp_path / "full", (2, 3)), run)
    written(run, scratched("second launch"), saved(1))
    assert resumed(checkpoints(tmp_path / "begun", (1,)), run) == 1, "a restart of the launch resumes"
    with pytest.raises(UserError, match=GONE.format(1)):
        resumed(str(tmp_path / "empty"), run)


def test_a_record_that_no_job_has_written_is_refused(tmp_path: Path) -> None:
    assert read_record(tmp_path / "none").checkpoints == {}
    written(tmp_path, saved(2))
    with (tmp_path / METRICS_FILE).open("a") as file:
        file.write('{"event": "checkpoint", "st')
    assert list(read_record(tmp_path).checkpoints) == [2], "a host that lost power left half a line"
    (tmp_path / METRICS_FILE).write_text('{"event": "checkpoint"}\n')
    with pytest.raises(StorageFailed, match=r"metrics\.jsonl: the record of the run cannot be read: KeyError"):
        read_record(tmp_path)


def test_a_run_whose_checkpoints_vanish_ends_and_begins_anew_only_when_told(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    document = job | {"steps": 6, "checkpoint": job["checkpoint"] | {"every": 2}}
    launch(document, 1, "--until-step", "4").finish()
    (tmp_path / "checkpoints").rename(tmp_path / "renamed")

    refused = launch(document, 2, rendezvous=("--standalone", "--max-restarts", "1"))
    output, _ = refused.process.communicate(timeout=1800)
    assert refused.process.returncode != 0
    gone = f"{tmp_path}/checkpoints/step-00000004: the checkpoint of step 4 is gone"
    assert output.count(gone) == 2 and "--from-scratch" in output, "the restart is refused, too"
    assert [event["step"] for event in refused.events("step")] == [1, 2, 3, 4], "no step was taken"

    moved = launch(document | {"checkpoint": document["checkpoint"] | {"location": f"{tmp_path}/renamed"}}, 1)
    moved.finish()
    assert moved.events("start")[-1]["resumed_from"] == 4

    launch(document, 1, "--until-step", "2", **{FROM_SCRATCH: "anew"}).finish()
    restarted = launch(document, 1, "--until-step", "4", **{FROM_SCRATCH: "anew"})
    restarted.finish()
    assert [event["resumed_from"] for event in restarted.events("start")] == [None, 4, None, 2]
