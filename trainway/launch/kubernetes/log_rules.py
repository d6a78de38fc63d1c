"""By which lines of a job's log HyperPod's operator knows that it hangs, stalls or diverges.

The lines are those that training/observe/metrics.py prints. Its agent matches them from their beginning, in what the
first rank of a node writes to stdout, and an evaluation of a rule other than healthy starts the job again from its
checkpoint.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html
hyperpod_elastic_agent/logagent/log_agent.py of hyperpod-elastic-agent 1.1.3 (both read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.launch.kubernetes.options import KubernetesOptions

_FINITE = r"-?\d+\.\d+"
# Only rank 0 writes it. So no rule says how soon the first one has to come: on the other nodes none ever does, and
# without one a rule that only counts the time since the last is not broken.
STEP = rf"step=\d+/\d+ loss={_FINITE} "
LOSS = rf"step=\d+/\d+ loss=({_FINITE}) "
SECONDS = r"step=\d+/\d+ .*\bstep_seconds=(\d+\.\d+)\b"
END = r"end step=\d+/\d+ "
# One slow step is a checkpoint or a neighbor; one high loss is a bad batch.
_STEPS_IN_A_ROW = 5


def log_rules(options: KubernetesOptions) -> list[dict[str, Any]]:
    """The rules of `logMonitoringConfiguration`.

    A loss that is not a number is no match for the first, and so hangs as well.
    """
    rules: list[dict[str, Any]] = [
        {
            "name": "Hang",
            "logPattern": STEP,
            "expectedRecurringFrequencyInSeconds": options.hang_seconds,
            "stopPattern": END,
        }
    ]
    limits = (("Stall", SECONDS, options.slow_step_seconds), ("Divergence", LOSS, options.loss_above))
    for name, pattern, threshold in limits:
        if threshold is not None:
            rules.append(
                {
                    "name": name,
                    "logPattern": pattern,
                    "metricThreshold": threshold,
                    "operator": "gt",
                    "metricEvaluationDataPoints": _STEPS_IN_A_ROW,
                    "stopPattern": END,
                }
            )
    return rules
