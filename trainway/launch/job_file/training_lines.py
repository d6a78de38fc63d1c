"""The lines of the training job's log, as regular expressions. training/observe/metrics.py prints the lines.

SageMaker reads metrics by them, and HyperPod's operator sees by them that a job makes progress. The operator's agent
matches a line from its beginning.
https://docs.aws.amazon.com/sagemaker/latest/dg/define-train-metrics.html (read 2026-11-21)
"""

from __future__ import annotations

from trainway.launch.program.program import LogPatterns

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
_FINITE = r"-?\d+\.\d+"

PATTERNS = LogPatterns(
    step=rf"step=\d+/\d+ loss={_FINITE} ",
    loss=rf"step=\d+/\d+ loss=({_FINITE}) ",
    step_seconds=r"step=\d+/\d+ .*\bstep_seconds=(\d+\.\d+)\b",
    end=r"end step=\d+/\d+ ",
)


def training_metrics() -> tuple[tuple[str, str], ...]:
    """Return the metrics of each step, and the loss of evaluations, each with its regular expression."""
    step = [(name, rf"{_BEGINNING}step=[0-9]+/[0-9]+ (?:.* )?{name}={_NUMBER}") for name in STEP_METRICS]
    return (*step, ("evaluation_loss", rf"{_BEGINNING}evaluation step=[0-9]+/[0-9]+ loss={_NUMBER}"))
