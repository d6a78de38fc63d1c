"""The command as a user meets it: what it reports, how it refuses, and that it learns."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.training.conftest import StartRank
from training.data.corpus import python_standard_library
from training.errors import UserError
from training.hosts.locations import resolve

BREAKDOWN = {"data_wait", "forward", "backward", "optimizer", "checkpoint", "other"}


# tests/test_end_to_end.py starts torchrun and its ranks as programs in `make test`, too.
def test_a_run_reports_every_step_everywhere(launch_either: Any, job: dict[str, Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    from training.observe.metrics import LOG_LINE

    run = launch_either(job | {"precision": "bf16"}, 1, "--until-step", "5")
    output = run.finish()

    (start,) = run.events("start")
    assert start.keys() >= {"job", "model", "parameters", "world_size", "device", "steps", "flop_per_token", "torch"}
    assert (start["tokens_per_step"], start["resumed_from"], start["precision"]) == (8 * 32, None, "bf16")
    steps = run.events("step")
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    for step in steps:
        assert float.fromhex(step["loss_hex"]) == step["loss"]
        assert step["tokens"] == step["step"] * start["tokens_per_step"]
        assert step["breakdown"].keys() == BREAKDOWN
        assert sum(step["breakdown"].values()) == pytest.approx(step["step_seconds"])
        assert (step["mfu"] is None) == (start["device"] == "cpu")
    assert [event["step"] for event in run.events("checkpoint")] == [4, 5]
    assert run.events("end")[0]["loss_hex"] == steps[-1]["loss_hex"]

    lines = [match for line in output.splitlines() if (match := LOG_LINE.match(line))]
    assert [int(line["step"]) for line in lines] == [1, 2, 3, 4, 5]
    board = EventAccumulator(str(run.directory / "tensorboard")).Reload()
    assert [scalar.step for scalar in board.Scalars("loss")] == [1, 2, 3, 4, 5]
    assert {f"breakdown/{phase}" for phase in BREAKDOWN} <= set(board.Tags()["scalars"])


def test_a_rank_that_crashes_in_native_code_prints_its_stack(launch_either: Any, job: dict[str, Any]) -> None:
    run = launch_either(job | {"steps": 100_000}, 1)
    wait_for("it takes steps", lambda: run.events("step"), 180)
    (rank,) = run.workers()
    os.kill(rank, signal.SIGSEGV)
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode != 0
    assert "Fatal Python error: Segmentation fault" in output
    assert re.search(r'File ".*training/train\.py", line \d+ in main', output), output


@pytest.mark.exhaustive
def test_the_bundled_job_learns(launch: Any, tmp_path: Path) -> None:
    from training.prepare import prepare

    prepare(python_standard_library(6_000_000), str(tmp_path / "corpus/python-stdlib"), 2048)
    locations = json.dumps({"fsx": str(tmp_path), "s3": str(tmp_path)})
    run = launch(
        Path(__file__).parents[2] / "examples/jobs/tiny.yaml", 2, "--until-step", "40", TRAINWAY_LOCATIONS=locations
    )
    run.finish()
    losses = [step["loss"] for step in run.events("step")]
    assert losses[0] == pytest.approx(7.6, abs=0.2), "the logarithm of the vocabulary: nothing is known"
    assert losses[-1] < 6.4
    assert [event["step"] for event in run.events("checkpoint")] == [40]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": "9b", "steps": -1}, "steps: Input should be greater than or equal to 1"),
        ({"stepz": 1, "batch": {"global": 0, "micro": 2}}, "job.yaml: stepz: "),
        ({"data": {"train": "fsx:/corpus"}}, "does not say where fsx: is"),
        ({"data": {"train": "nowhere"}}, "there are no token shards here"),
        ({"parallel": {"dp_shard": 3}}, "parallel.dp_shard is 3, but the job has 1 ranks"),
    ],
)
def test_a_wrong_job_is_one_message_and_exit_status_2(
    change: dict[str, Any], sentence: str, job: dict[str, Any], start_rank: StartRank, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job | change))
    rank = start_rank(path, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", TRAINWAY_LOCATIONS="{}")
    said, _ = rank.communicate(timeout=1800)
    assert rank.returncode == 2
    assert sentence in said
    assert "Traceback" not in said


def handles(pid: int, number: signal.Signals) -> bool:
    """Return whether the process `pid` has installed a handler for the signal `number`."""
    caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert caught, "/proc/PID/status has no SigCgt"
    return bool(int(caught[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"data": {"train": "nowhere"}}, "there are no token shards here"),
        ({"batch": {"global": 7, "micro": 2}}, "a global batch of 7 samples"),
    ],
    ids=["data", "job file"],
)
@pytest.mark.parametrize("first_reports", [True, False], ids=["of all ranks", "of this rank alone"])
def test_an_error_is_reported_once_by_the_first_rank_or_by_the_only_one_that_has_it(
    first_reports: bool,
    change: dict[str, Any],
    sentence: str,
    job: dict[str, Any],
    start_rank: StartRank,
    tmp_path: Path,
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job | change))
    second = start_rank(path, RANK="1", LOCAL_RANK="1", WORLD_SIZE="2")
    if first_reports:
        # It waits for the report of the first rank. torchrun ends it when that rank has exited.
        wait_for("the rank handles SIGTERM", lambda: handles(second.pid, signal.SIGTERM))
        second.terminate()
    said, _ = second.communicate(timeout=1800)
    assert second.returncode == 2
    assert (sentence in said) is not first_reports


def test_a_rank_that_was_ended_before_its_error_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun ends all ranks when the first one has reported the error. Another one may still read the data."""
    from training.hosts.stopping import StopSignal
    from training.train import wait_for_first_rank

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    monkeypatch.setenv("LOCAL_RANK", "1")
    try:
        stop = StopSignal()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit, match=r"^2$"):
            wait_for_first_rank(2, stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_location_is_below_the_root_that_the_launcher_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINWAY_LOCATIONS", '{"fsx": "/fsx", "s3": "s3://bucket/prefix/"}')
    assert resolve("fsx:/corpus/web/") == "/fsx/corpus/web"
    assert resolve("s3:/checkpoints/x") == "s3://bucket/prefix/checkpoints/x"
    assert resolve("s3://other/key/") == "s3://other/key"
    assert resolve("some/directory") == "some/directory"
    monkeypatch.setenv("TRAINWAY_LOCATIONS", "[]")
    with pytest.raises(UserError, match="not a JSON object"):
        resolve("fsx:/corpus")


def test_the_phases_of_a_step_add_up_to_it() -> None:
    import torch

    from training.observe.laps import PHASES, Laps, seconds

    laps = Laps(torch.device("cpu"))
    laps.start()
    for phase in ("data_wait", "forward", "backward", "forward"):
        laps.lap(phase)
    first = laps.end_step()
    spent = seconds(first)
    assert tuple(spent) == PHASES
    assert spent["forward"] > 0
    assert spent["checkpoint"] == 0
    assert sum(spent.values()) == pytest.approx(first[-1].host_seconds - first[0].host_seconds)
    laps.lap("optimizer")
    assert laps.end_step()[0] == first[-1], "no time is between two steps"
    assert not any(seconds([]).values())


def test_a_line_that_a_power_cut_tore_is_dropped(tmp_path: Path) -> None:
    from training.observe.metrics import Metrics

    whole = json.dumps({"event": "step", "step": 1}) + "\n"
    (tmp_path / "metrics.jsonl").write_text(whole + '{"event": "st')
    metrics = Metrics(tmp_path, steps=2, resumed_from=None)
    metrics.event("step", step=2)
    metrics.close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]


def test_a_profile_has_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    import torch

    from training.observe.profiling import profiling

    with profiling(tmp_path / "profile", steps=2, device=torch.device("cpu")) as end_of_step:
        for step in range(10):
            with torch.profiler.record_function(f"step {step}"):
                torch.ones(8, 8) @ torch.ones(8, 8)
            end_of_step()
    names = [event["name"] for event in json.loads((tmp_path / "profile/trace.json").read_text())["traceEvents"]]
    assert [name for name in names if name.startswith("step ")] == ["step 5", "step 6"]
    assert names.count("aten::mm") == 2


def test_the_lines_that_the_page_shows_are_those_that_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from training.observe.laps import PHASES
    from training.observe.metrics import LOG_LINE, Metrics

    metrics = Metrics(tmp_path, steps=100_000, resumed_from=None)
    metrics.step(
        {
            "step": 2000,
            "loss": 2.91127,
            "grad_norm": 0.41267,
            "learning_rate": 3e-4,
            "tokens_per_second": 812_345.2,
            "mfu": 0.5612,
            "step_seconds": 10.3271,
            "breakdown": dict.fromkeys(PHASES, 0.0) | {"data_wait": 0.0012},
            "mfu_causal": 0.4989,
            "memory_bytes": int(61.4 * 2**30),
        }
    )
    metrics.evaluation(2000, 2.98712, 3.1416)
    metrics.close()
    step, evaluation = capsys.readouterr().out.splitlines()
    page = (Path(__file__).parents[2] / "docs/watching.md").read_text().splitlines()
    assert f"    {step}" in page
    assert f"    {evaluation}" in page
    assert LOG_LINE.fullmatch(step)
    assert not LOG_LINE.match(evaluation)
