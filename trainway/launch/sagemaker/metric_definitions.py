"""How SageMaker reads the metrics of a run from its log, the lines of which training/observe/metrics.py prints.

https://docs.aws.amazon.com/sagemaker/latest/dg/define-train-metrics.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AlgorithmSpecification.html (read 2026-11-21)
"""

from __future__ import annotations

STEP_METRICS = (
    "loss",
    "grad_norm",
    "learning_rate",
    "tokens_per_second",
    "mfu",
    "step_seconds",
    "data_wait",
    "mfu_causal",
    "memory_gib",
)
# A value that is not known is printed as `-`, and a loss may be no number: neither is a point of a chart.
_NUMBER = r"(-?[0-9][0-9.e+-]*)"
# torchrun puts `[default0]:` before what a rank writes.
_BEGINNING = r"(?:^|\]: ?)"


def metric_definitions() -> list[dict[str, str]]:
    """The request's MetricDefinitions: the metrics of each step, and the loss of evaluations."""
    step = [(name, rf"{_BEGINNING}step=[0-9]+/[0-9]+ (?:.* )?{name}={_NUMBER}") for name in STEP_METRICS]
    evaluation = ("evaluation_loss", rf"{_BEGINNING}evaluation step=[0-9]+/[0-9]+ loss={_NUMBER}")
    return [{"Name": name, "Regex": regex} for name, regex in (*step, evaluation)]
