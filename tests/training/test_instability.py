"""No step that is not finite changes the state of a run, and no run ends well that has diverged."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.checkpoints import IDENTITY, save, tensors, trained, whole
from training.config import Instability, Optimizer
from training.errors import Diverged

if TYPE_CHECKING:
    from torch import Tensor

NAN, INF = math.nan, math.inf


def faulty(*faults: tuple[str, int, int, int]) -> dict[str, str]:
    """The environment of `faulty_train`: kind of a fault, first and last step of an undisturbed run, and the rank."""
    listed = [
        {"kind": kind, "samples": [8 * (first - 1), 8 * last - 1], "rank": rank} for kind, first, last, rank in faults
    ]
    return {"FAULTS": json.dumps(listed), "module": "tests.training.faulty_train"}


@pytest.mark.usefixtures("one_rank", "without_kernels")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"state": "bf16"},
        *(pytest.param({"name": name}, marks=pytest.mark.exhaustive) for name in ("muon", "adamw-8bit")),
    ],
    ids=lambda each: str(each or "adamw"),
)
@pytest.mark.parametrize("steps_before", [0, 2])
def test_a_skipped_step_changes_no_weight_moment_or_count(settings: dict[str, str], steps_before: int) -> None:
    import torch

    from training.optim.optimizer import step as take_step

    if settings.get("name") == "adamw-8bit":
        pytest.importorskip("torchao")
    model, optimizer = trained(0, steps_before, Optimizer.model_validate(settings))
    # The state of the first step exists before it is filled.
    for number, skipped in ((3, 0.0), (4, 1.0), (5, 0.0)):
        before = [whole(tensor).clone() for tensor in tensors(model, optimizer)]
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
            if skipped:
                parameter.grad *= NAN
        take_step(optimizer, number, torch.tensor(skipped))
        after = [whole(tensor) for tensor in tensors(model, optimizer)]
        assert all(tensor.isfinite().all() for tensor in after)
        unchanged = [torch.equal(one, other) for one, other in zip(before, after, strict=False)]
        if skipped:
            assert all(unchanged)
            assert len(before) == len(after)
        else:
            assert not any(unchanged[: len(list(model.parameters()))])


@pytest.mark.usefixtures("one_rank", "without_kernels")
@pytest.mark.parametrize("settings", [{}, {"name": "muon"}, {"name": "adamw-8bit"}])
def test_a_first_step_that_is_skipped_leaves_the_state_of_no_step(settings: dict[str, str]) -> None:
    import torch

    from training.optim.optimizer import step as take_step

    if settings.get("name") == "adamw-8bit":
        pytest.importorskip("torchao")
    model, optimizer = trained(0, 0, Optimizer.model_validate(settings))
    weights = [tensor.clone() for tensor in model.state_dict().values()]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, INF)
    take_step(optimizer, 1, torch.tensor(1.0))
    assert all(torch.equal(one, other) for one, other in zip(weights, model.state_dict().values(), strict=True))
    assert not any(whole(tensor).any() for tensor in tensors(model, optimizer)[len(weights) :])


def test_an_optimizer_that_knows_no_found_inf_takes_no_skipped_step() -> None:
    import torch

    from training.optim.optimizer import step as take_step

    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
    for number, skipped, expected in ((1, 0.0, 0.5), (2, 1.0, 0.5), (3, 0.0, -0.45)):
        weight.grad = torch.ones(3) * (NAN if skipped else 1)
        take_step(optimizer, number, torch.tensor(skipped))
        assert weight.tolist() == pytest.approx([expected] * 3)


@pytest.mark.parametrize(
    ("loss", "norm", "scale", "skipped", "in_a_row"),
    [
        (2.0, 1.0, 1.0, 0, 0),
        (NAN, 1.0, 1.0, 1, 1),
        (2.0, NAN, 1.0, 1, 1),
        (INF, INF, 1.0, 1, 1),
        (2.0, INF, 2.0**16, 1, 0),  # fp16 looks for its scale
        (NAN, INF, 2.0**16, 1, 1),
    ],
)
def test_a_step_is_skipped_if_a_number_is_not_finite(
    loss: float, norm: float, scale: float, skipped: int, in_a_row: int
) -> None:
    import torch

    from training.optim.step_guard import StepGuard

    guard = StepGuard(Instability(), torch.device("cpu"))
    for _ in range(2):
        decision = guard.judge(torch.tensor(loss), torch.tensor(norm), torch.tensor(scale))
    assert (decision.skipped.item(), decision.in_a_row.item()) == (skipped, 2 * in_a_row)
    good = guard.judge(torch.tensor(2.0), torch.tensor(1.0))
    assert (good.skipped.item(), good.in_a_row.item()) == (0, 0)


def numbers_of(steps: int) -> Tensor:
    """Losses and norms that vary a little, with three spikes and a NaN, and a level that changes for good."""
    import torch

    numbers = torch.rand(steps, 2, generator=torch.Generator().manual_seed(0)) / 10 + torch.tensor([3.0, 0.5])
    numbers[20, 0] = 9
    numbers[30, 1] = 40
    numbers[40:] += 5
    # A spike that follows a NaN is one only if the NaN is not among the last steps.
    numbers[38], numbers[39, 0] = NAN, 9
    return numbers


def test_a_spike_exceeds_the_mean_of_the_last_steps_by_some_deviations() -> None:
    import torch

    from training.optim.step_guard import StepGuard

    window, sigma = 16, 4.0
    guard = StepGuard(Instability(spike_sigma=sigma, spike_window=window), torch.device("cpu"))
    last: list[list[float]] = []
    found, expected = [], []
    for row in numbers_of(80):
        found.append(guard.judge(row[0], row[1]).skipped.item())
        finite = bool(row.isfinite().all())
        spike = len(last) >= window // 2 and any(
            number > statistics.mean(column) + sigma * statistics.stdev(column)
            for number, column in zip(row.tolist(), zip(*last, strict=True), strict=True)
        )
        expected.append(float(not finite or spike))
        last = [*last, row.tolist()][-window:] if finite else last
    assert found == expected
    assert [step for step, skipped in enumerate(found) if skipped][:4] == [20, 30, 38, 39]
    assert not any(found[60:]), "a lasting change of the level is accepted"


def test_a_resumed_run_knows_the_last_steps() -> None:
    import torch

    from training.checkpoint import Progress
    from training.optim.step_guard import StepGuard

    settings = Instability(spike_sigma=4, spike_window=16)
    for stop in (3, 16, 27):
        untouched, first = StepGuard(settings, torch.device("cpu")), StepGuard(settings, torch.device("cpu"))
        numbers = numbers_of(40)
        for row in numbers[:stop]:
            untouched.judge(*row)
            first.judge(*row)
        saved = Progress.of_entry(Progress(1, 8, 1.0, recent=first.recent()).as_entry())
        resumed = StepGuard(settings, torch.device("cpu"), saved.recent)
        for row in numbers[stop:]:
            assert resumed.judge(*row).skipped == untouched.judge(*row).skipped
        assert resumed.recent() == untouched.recent()


@pytest.mark.usefixtures("one_rank")
def test_a_checkpoint_whose_weights_are_not_finite_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import Progress

    model, optimizer = trained(seed=0, steps=1)
    save(str(tmp_path), (model, optimizer), Progress(1, 8, 2.0))
    with torch.no_grad():
        next(model.parameters()).to_local().view(-1)[3] = NAN  # type: ignore[attr-defined]
    save(str(tmp_path), (model, optimizer), Progress(2, 16, 2.0))
    resumed = checkpoint.resume(str(tmp_path), None, *trained(seed=1, steps=0), IDENTITY)
    assert resumed is not None
    assert resumed.progress.step == 1
    assert "step-00000002, step 2: its weights are not finite" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_a_run_skips_steps_on_all_ranks_and_resumes_to_the_same_bits(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    document = job | {
        "optimizer": job["optimizer"] | {"state": "bf16"},
        "instability": {"spike_sigma": 6, "spike_window": 8},
    }
    environment = faulty(("gradient", 6, 6, 1), ("loss", 8, 8, 0), ("spike", 13, 13, 1))
    elsewhere = {"checkpoint": job["checkpoint"] | {"location": str(tmp_path / "first-checkpoints")}}
    run = launch(document | elsewhere, 2, name="first", **environment)
    output = run.finish()
    assert [event["step"] for event in run.events("step") if event["skipped"]] == [6, 8, 13]
    assert "skipped step=6/16: the gradient norm is nan" in output
    assert "skipped step=8/16: the loss is nan" in output
    assert "is a spike" in output
    assert [event["step"] for event in run.events("checkpoint")] == [4, 9, 12, 16], "step 8 is saved one step later"
    (end,) = run.events("end")

    launch(document, 2, "--until-step", "8", **environment).finish()
    resumed = launch(document, 2, **environment)
    resumed.finish()
    assert resumed.events("start")[-1]["resumed_from"] == 8
    assert resumed.events("end")[-1]["loss_hex"] == end["loss_hex"]


@pytest.mark.exhaustive
def test_a_run_that_diverges_stops_with_a_status_of_its_own(launch: Any, job: dict[str, Any], tmp_path: Path) -> None:
    document = job | {"instability": {"skip_limit": 3}, "steps": 1000}
    # torchrun looks seldom, so that it sees both ranks' own ends and does not end one for the other's sake.
    run = launch(document, 2, **faulty(("gradient", 7, 1000, 1)), PET_MONITOR_INTERVAL="5")
    output, _ = run.process.communicate(timeout=1800)
    assert output.count(f"exitcode  : {Diverged.status}") == 2, output
    reason = "3 consecutive steps were skipped. In the last one, step 9, the gradient norm is nan"
    assert output.count(reason) == 1
    assert [event["reason"] for event in run.events("diverged")] == [reason]
    assert not run.events("end")
    assert checkpoint_steps(tmp_path) == [4], "nothing is saved after the first skipped step"


@pytest.mark.exhaustive
def test_a_run_goes_back_past_the_samples_that_made_it_diverge(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    document = job | {"instability": {"skip_limit": 3, "action": "rewind", "rewinds": 1}}
    # The samples of steps 6 to 8, and a weight that breaks where it would be saved: in step 12 after the first rewind.
    run = launch(document, 2, **faulty(("gradient", 6, 8, 1), ("weight", 16, 16, 1)))
    output = run.finish()
    first, second = run.events("rewound")
    assert (first["step"], first["to_step"], first["samples"]) == (8, 4, [32, 64])
    assert "the weights are not finite after step 12" in second["reason"]
    assert (second["step"], second["to_step"], second["samples"]) == (12, 8, [96, 128])
    assert output.count("rewound step=") == 2
    tokens = [(event["step"], event["tokens"] // 32) for event in run.events("step")]
    assert tokens[-8:] == [(step, 128 + 8 * (step - 8)) for step in range(9, 17)]
    assert math.isfinite(run.events("end")[-1]["loss"])
    assert checkpoint_steps(tmp_path) == [12, 16]

    again = launch(document | {"steps": 40}, 2, **faulty(("gradient", 20, 100, 0)))
    output, _ = again.process.communicate(timeout=1800)
    assert "The run went back to step 16 1 times" in output
    assert f"exitcode  : {Diverged.status}" in output


def checkpoint_steps(directory: Path) -> list[int]:
    """The steps of the complete checkpoints."""
    return sorted(int(file.parent.name[5:]) for file in directory.glob("checkpoints/*/.metadata"))
