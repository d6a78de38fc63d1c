"""SageMaker reads from the log what training writes there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trainway.launch.job_file.training_program import STEP_METRICS, training_metrics

VALUES: dict[str, Any] = {
    "step": 7,
    "loss": 2.25,
    "grad_norm": 0.5,
    "learning_rate": 3e-4,
    "tokens_per_second": 81920.4,
    "mfu": 0.41,
    "mfu_causal": None,
    "step_seconds": 1.25,
    "memory_bytes": 3 * 2**30,
    "breakdown": {"data_wait": 0.01},
}


@pytest.fixture
def lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a run prints, as torchrun passes it on: a step, one whose loss is no number, an evaluation."""
    from training.observe.metrics import Metrics

    metrics = Metrics(tmp_path, 100, None)
    metrics.step(VALUES)
    metrics.step(VALUES | {"loss": float("nan")})
    metrics.evaluation(7, 2.5, 3.0)
    metrics.close()
    return [f"[default0]:{line}" for line in capsys.readouterr().out.splitlines()]


def found(lines: list[str]) -> dict[str, list[str]]:
    """The values of each metric that SageMaker would publish."""
    return {
        name: [match[1] for line in lines if (match := re.search(regex, line))] for name, regex in training_metrics()
    }


def test_every_value_of_a_line_is_a_metric() -> None:
    from training.observe.metrics import LOG_LINE

    assert set(STEP_METRICS) == set(LOG_LINE.groupindex) - {"step", "steps"}


def test_metrics_are_the_values_of_real_lines(lines: list[str]) -> None:
    values = found(lines)
    assert values["loss"] == ["2.2500"]
    assert values["learning_rate"] == ["3.000e-04"] * 2
    assert values["tokens_per_second"] == ["81920"] * 2
    assert values["memory_gib"] == ["3.00"] * 2
    assert values["evaluation_loss"] == ["2.5000"]
    assert all(values[name] for name in STEP_METRICS if name != "mfu_causal")


def test_what_is_not_known_is_no_point_of_a_chart(lines: list[str]) -> None:
    assert found(lines)["mfu_causal"] == []


def test_a_line_is_the_same_whether_torchrun_marks_it_or_not(lines: list[str]) -> None:
    assert found([line.removeprefix("[default0]:") for line in lines]) == found(lines)
    assert not any(found([f"somebody said {line.removeprefix('[default0]:')}" for line in lines]).values())
