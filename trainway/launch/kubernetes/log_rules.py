"""By which lines of a job's log HyperPod's operator knows that it hangs, stalls or diverges.

Its agent matches the patterns of a program from the beginning of a line, in what the first rank of a node writes to
stdout. An evaluation of a rule other than healthy starts the job again from its checkpoint.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html
hyperpod_elastic_agent/logagent/log_agent.py of hyperpod-elastic-agent 1.1.3 (both read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.program.program import LogPatterns

# One slow step is a checkpoint or a neighbor; one high loss is a bad batch.
_STEPS_IN_A_ROW = 5


def log_rules(patterns: LogPatterns, options: KubernetesOptions) -> list[dict[str, Any]]:
    """Return the rules of `logMonitoringConfiguration`.

    Only rank 0 prints the lines. So no rule says how soon the first one has to come: on the other nodes none ever does,
    and without one a rule that only counts the time since the last is not broken.

    A loss that is not a number is no match for the first, and so hangs as well.
    """
    rules: list[dict[str, Any]] = [
        {
            "name": "Hang",
            "logPattern": patterns.step,
            "expectedRecurringFrequencyInSeconds": options.hang_seconds,
            "stopPattern": patterns.end,
        }
    ]
    limits = (
        ("Stall", patterns.step_seconds, options.slow_step_seconds),
        ("Divergence", patterns.loss, options.loss_above),
    )
    for name, pattern, threshold in limits:
        if threshold is not None:
            rules.append(
                {
                    "name": name,
                    "logPattern": pattern,
                    "metricThreshold": threshold,
                    "operator": "gt",
                    "metricEvaluationDataPoints": _STEPS_IN_A_ROW,
                    "stopPattern": patterns.end,
                }
            )
    return rules
