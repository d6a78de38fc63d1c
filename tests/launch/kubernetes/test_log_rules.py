"""HyperPod's operator knows a run that hangs, stalls or diverges by the lines that the job really prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trainway.launch.job_file.training_program import PATTERNS
from trainway.launch.kubernetes import KubernetesOptions
from trainway.launch.kubernetes.log_rules import log_rules

RULES = {
    rule["name"]: rule
    for rule in log_rules(PATTERNS, KubernetesOptions(hang_seconds=600, slow_step_seconds=30, loss_above=11))
}


def line_of_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> str:
    """What rank 0 prints."""
    from training.observe.metrics import LOG_LINE, Metrics

    values = {
        "step": 8,
        "loss": 2.3456,
        "grad_norm": 0.5,
        "learning_rate": 3e-4,
        "tokens_per_second": 12345.6,
        "mfu": None,
        "mfu_causal": 0.4,
        "step_seconds": 12.345,
        "breakdown": {"data_wait": 0.001},
        "memory_bytes": 2**30,
    }
    metrics = Metrics(tmp_path, steps=100, resumed_from=None)
    metrics.step(values | changes)
    metrics.close()
    printed = capsys.readouterr().out.splitlines()[-1]
    assert LOG_LINE.fullmatch(printed)
    return printed


def metric(name: str, line: str) -> float | None:
    """What the rule compares; the agent matches from the beginning of a line, and takes the first group."""
    found = re.match(RULES[name]["logPattern"], line)
    return float(found[1]) if found and found.groups() else None


def test_each_step_is_a_sign_of_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.match(RULES["Hang"]["logPattern"], line_of_a_step(tmp_path, capsys))
    assert RULES["Hang"]["expectedRecurringFrequencyInSeconds"] == 600


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_step_without_a_finite_loss_is_none(loss: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not re.match(RULES["Hang"]["logPattern"], line_of_a_step(tmp_path, capsys, loss=loss))


def test_an_evaluation_and_the_start_are_none() -> None:
    for line in ("evaluation step=8/100 loss=2.3456 seconds=1.000", "start model=tiny nodes=2"):
        assert not any(re.match(rule["logPattern"], line) for rule in RULES.values())


def test_nodes_without_rank_0_print_no_step_and_break_no_rule() -> None:
    """A rule with a first line by a time would, on each of them."""
    assert not any("expectedStartCutOffInSeconds" in rule for rule in RULES.values())


def test_a_slow_step_and_a_high_loss_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = line_of_a_step(tmp_path, capsys)
    assert (metric("Stall", line), metric("Divergence", line)) == (12.345, 2.3456)
    for name, threshold in (("Stall", 30), ("Divergence", 11)):
        rule = RULES[name]
        assert (rule["metricThreshold"], rule["operator"], rule["metricEvaluationDataPoints"]) == (threshold, "gt", 5)


def test_no_rule_outlives_the_last_step() -> None:
    """The last checkpoint takes as long as it takes."""
    line = "end step=100/100 loss=2.3456 checkpoints=s3://atlas-data/checkpoints/small"
    assert all(re.match(rule["stopPattern"], line) for rule in RULES.values())


def test_only_what_was_asked_for_is_measured() -> None:
    assert [rule["name"] for rule in log_rules(PATTERNS, KubernetesOptions())] == ["Hang"]
