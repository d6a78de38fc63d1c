"""How a job says whose it is."""

from __future__ import annotations

from trainway.manifests.kai import QUEUE_LABEL
from trainway.spec.platform import Platform


def queue_labels(platform: Platform) -> dict[str, str]:
    """The labels by which a team's job names its queue, in which `{team}` stands for the team's name.

    Empty where a job needs none: under Kueue, those of a namespace are in the queue `default` there.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-cli.html
    (read 2026-11-21)
    """
    if platform.kai:
        return {QUEUE_LABEL: "{team}"}
    return {"kueue.x-k8s.io/queue-name": "hyperpod-ns-{team}-localqueue"} if platform.task_governance else {}
