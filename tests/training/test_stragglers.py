"""A rank that slows down all others is named, with its host, its device, the phase, and since when."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.conftest import Launch, Run
from training.observe.stragglers import LocalWork, Straggler, Streak, continued, named, slow_ranks, straggler_sentence

if TYPE_CHECKING:
    from torch import Tensor, nn

PHASES = {"data_wait": 0.01, "forward": 0.3, "backward": 0.6}


def work(
    rank: int, times: float = 1.0, stage: int = 0, seconds: Mapping[str, float] = MappingProxyType({})
) -> LocalWork:
    """Return the report of a rank whose computation takes `times` as long as usual, or other seconds of a phase."""
    of_phases = {name: usual * (1 if name == "data_wait" else times) for name, usual in PHASES.items()}
    of_phases |= seconds
    return LocalWork(rank, f"node-{rank // 8}", rank % 8, "NVIDIA H200", stage, 51, 100, 1795910400.0, of_phases)


def works(times: Sequence[float]) -> list[LocalWork]:
    return [work(rank, each) for rank, each in enumerate(times)]


@pytest.mark.parametrize(
    ("times", "slow"),
    [
        ([1, 1], []),
        ([1, 1.15], [1]),
        ([1.15, 1], [0]),
        ([1, 1.05, 0.97], []),
        ([1, 1.04, 1.2], [2]),
        ([1.15, 1, 1.15, 1], [0, 2]),
        ([1, 1, 1, 0.5], []),
        ([1.0] * 15 + [1.15], [15]),
        # Ranks that differ so much from each other have no straggler.
        ([1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7], []),
        ([0.9, 1.1] * 8 + [1.15], []),
        ([0.98, 1, 1.02] * 300 + [1.15], [900]),
    ],
)
def test_a_slow_rank_is_one_that_is_slower_than_the_others_differ(times: list[float], slow: list[int]) -> None:
    assert [each.rank for each in slow_ranks(works(times))] == slow


@pytest.mark.parametrize(
    ("seconds", "phase"),
    [
        ({"forward": 0.6}, "forward"),
        ({"backward": 0.9}, "backward"),
        ({"data_wait": 0.4, "backward": 0.65}, "data_wait"),
    ],
)
def test_the_phase_is_the_one_with_most_of_the_difference(seconds: dict[str, float], phase: str) -> None:
    (found,) = slow_ranks([work(0), work(1, seconds=seconds), work(2)])
    assert (found.rank, found.phase) == (1, phase)


def test_ranks_are_compared_within_their_stage_of_the_pipeline() -> None:
    stages = [work(0, 1.0), work(1, 1.0), work(2, 1.5, stage=1), work(3, 1.5, stage=1), work(4, 1.8, stage=1)]
    assert [each.rank for each in slow_ranks(stages)] == [4]
    assert slow_ranks([work(0), work(1, 2.0, stage=1)]) == [], "a stage of one rank"


def test_ranks_without_work_are_not_compared() -> None:
    nothing = dict.fromkeys(PHASES, 0.0)
    assert slow_ranks([work(0, seconds=nothing), work(1, seconds=nothing), work(2)]) == []


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ("s-s-s", "-----"),
        ("sss", "-NN"),
        ("ss-s--s", "-NNNN--"),
        ("ss--ss", "-NN--N"),
    ],
)
def test_a_rank_is_named_after_two_slow_reports_in_a_row_and_until_two_that_are_not(
    reports: str, expected: str
) -> None:
    """The letter s is a report in which the rank is slow, and N a report after which the rank is named."""
    streaks: dict[int, Streak] = {}
    found = ""
    for number, report in enumerate(reports):
        streaks = continued(streaks, [straggler(since_step=50 * number)] if report == "s" else [])
        found += "N" if named(streaks) else "-"
    assert found == expected


def test_a_straggler_is_slow_since_its_first_slow_report_and_as_slow_as_in_its_last() -> None:
    streaks = continued({}, [straggler(ratio=1.3, since_step=51)])
    streaks = continued(streaks, [straggler(ratio=1.2, since_step=101), straggler(rank=3)])
    (found,) = named(streaks)
    assert (found.rank, found.ratio, found.since_step) == (11, 1.2, 51)


def straggler(rank: int = 11, ratio: float = 1.17, since_step: int = 2251) -> Straggler:
    where = ("ip-10-0-16-7 i-0123456789abcdef0", rank % 8, "NVIDIA H200")
    return Straggler(rank, *where, "backward", ratio, since_step, 1795960800.0)


def test_a_sentence_names_rank_host_device_step_time_and_phase() -> None:
    assert straggler_sentence([straggler()]) == (
        "rank 11 (host ip-10-0-16-7 i-0123456789abcdef0, local rank 3, NVIDIA H200) is slow since step 2251 "
        "(2026-11-29T14:00:00+00:00): its work takes 1.17 times that of the median rank, most of the difference in "
        "backward"
    )
    assert straggler_sentence([]) == "no rank is slower than the others any more"
    assert straggler_sentence([straggler(rank) for rank in range(300)]).endswith("; 292 more ranks are slow")


def test_a_report_is_the_same_after_the_store() -> None:
    assert LocalWork.decoded(work(3, 1.1).encoded().encode()) == work(3, 1.1)


@pytest.fixture
def processor_seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processor time that the watched layer reads, which a test advances."""
    from training.observe import layer_times

    now = [0.0]
    monkeypatch.setattr(f"{layer_times.__name__}.time.thread_time", lambda: now[0])
    return now


def test_a_layer_is_measured_between_the_hooks_that_wait_for_other_ranks(processor_seconds: list[float]) -> None:
    """The hooks are those of FSDP: one before the forward pass, one of the output's gradient, one of the input's."""
    import torch

    from training.observe.layer_times import LayerTimes, layer_seconds

    def take(seconds: float) -> None:
        processor_seconds[0] += seconds

    def before_gather(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        take(100)
        if inputs[0].requires_grad:
            inputs[0].register_hook(lambda _: take(100))
        return (inputs[0].view_as(inputs[0]),)

    def gather_in_backward(_: nn.Module, __: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda _: take(100))

    layer = timed_layer(take)
    layer.register_forward_pre_hook(before_gather, prepend=True)
    layer.register_forward_hook(gather_in_backward)
    times = LayerTimes(layer, torch.device("cpu"))
    # Two micro-batches of a pipeline, whose forward passes come first.
    losses = [layer(torch.ones(2, requires_grad=True)).sum() for _ in range(2)]
    for loss in losses:
        loss.backward()
    with torch.no_grad():
        layer(torch.ones(2))
    assert layer_seconds(times.end_step()) == {"forward": 2.0, "backward": 4.0}
    assert times.end_step() == []


def timed_layer(take: Callable[[float], None]) -> nn.Module:
    """Return a layer that computes for a second, and for two in the backward pass."""
    import torch
    from torch import nn

    class Timed(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, hidden: Tensor) -> Tensor:
            take(1)
            return hidden.clone()

        @staticmethod
        def backward(_: Any, gradient: Tensor) -> Tensor:
            take(2)
            return gradient

    class Layer(nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            output: Tensor = Timed.apply(hidden)
            return output

    return Layer()


@pytest.mark.usefixtures("processor_seconds")
def test_a_layer_whose_input_needs_no_gradient_has_no_backward_pass() -> None:
    import torch

    from training.observe.layer_times import LayerTimes, layer_seconds

    layer = torch.nn.Linear(2, 2)
    times = LayerTimes(layer, torch.device("cpu"))
    layer(torch.ones(2)).sum().backward()
    assert layer_seconds(times.end_step()) == {"forward": 0.0, "backward": 0.0}


def run_with(launch: Launch, job: dict[str, Any], name: str, slow: dict[str, Any], **variables: str) -> Run:
    """Train on three ranks, of which one may be slow, with a report after every 40 steps.

    The steps of a report take longer than the heartbeats with which it travels, also on a fast machine.
    """
    checkpoint = {"every": 240, "location": f"{job['checkpoint']['location']}-{name}"}
    document = job | {"steps": 240, "batch": {"global": 6, "micro": 2}, "checkpoint": checkpoint}
    variables |= {"SLOW": json.dumps(slow), "STEPS_OF_REPORT": "40"}
    return launch(document, 3, name=name, module="benchmarks.slow_rank", **variables)


@pytest.mark.exhaustive
def test_a_rank_of_a_run_that_is_slow_by_15_percent_is_named_as_long_as_it_is_slow(
    launch: Launch, job: dict[str, Any]
) -> None:
    from training.hosts.this_node import this_node

    sound = run_with(launch, job, "sound", {}, COUNT="1")
    assert "stragglers:" not in sound.finish() and sound.events("stragglers") == []

    run = run_with(launch, job, "slow", {"rank": 1, "kind": "computation", "part": 0.15, "steps": [41, 139]}, COUNT="1")
    output = run.finish()
    first, last = run.events("stragglers")
    (found,) = first["stragglers"]
    where = {"rank": 1, "host": this_node(), "local_rank": 1, "device": "cpu"}
    assert {name: found[name] for name in where} == where
    assert found["phase"] in ("forward", "backward") and found["ratio"] == pytest.approx(1.15, abs=0.03)
    assert found["since_step"] == 41 and 80 < first["step"] < last["step"] and last["stragglers"] == []
    assert f"stragglers: step {first['step']}: {first['reason']}\n" in output
    assert run.events("end")[0]["loss_hex"] == sound.events("end")[0]["loss_hex"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("slow", "phases"),
    [
        ({"kind": "computation", "part": 1.0}, {"forward", "backward"}),
        ({"kind": "data", "part": 0.05}, {"data_wait"}),
    ],
    ids=["computation", "data"],
)
def test_a_rank_that_works_longer_is_named_by_processor_time(
    slow: dict[str, Any], phases: set[str], launch: Launch, job: dict[str, Any]
) -> None:
    run = run_with(launch, job, "slow", slow | {"rank": 2, "steps": [1, 1000]})
    run.finish()
    event, *_ = run.events("stragglers")
    (found,) = event["stragglers"]
    assert found["rank"] == 2 and found["phase"] in phases
