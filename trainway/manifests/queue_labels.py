"""Labels by which a job names its team's queue."""

from __future__ import annotations

from trainway.manifests.kai import QUEUE_LABEL
from trainway.manifests.run_ai import PROJECT_LABEL
from trainway.spec.platform import Platform


def queue_labels(platform: Platform) -> dict[str, str]:
    """Return the labels by which a team's job names its queue. `{team}` is a placeholder for the team's name.

    Empty if a job needs none: under Kueue, the jobs of a namespace are in its queue `default`.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-cli.html (read
    2026-11-21)
    """
    if platform.kai:
        return {QUEUE_LABEL: "{team}"}
    if platform.run_ai:
        return {PROJECT_LABEL: "{team}"}
    return {"kueue.x-k8s.io/queue-name": "hyperpod-ns-{team}-localqueue"} if platform.task_governance else {}
